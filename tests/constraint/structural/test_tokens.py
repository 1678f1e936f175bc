"""Formats of tokens in structural tags: a token by its name is that token, never other tokens that spell it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from constrained import (
    ConstrainedError,
    InvalidConstraint,
    UnsupportedConstraint,
    Vocabulary,
    VocabularyError,
    compile,
    structural_tag,
    tag,
)
from constrained.constraint.free_text import after
from tests.support.structural_tags import of

SPECIAL = {"<|call|>": 256, "<|end|>": 257, "<|other|>": 258, "<|eos|>": 259}
MARKUP = 260
"""An ordinary token with the bytes ``</think>``, as in the tokenizers of some models."""
VOCABULARY = Vocabulary(
    [*(bytes([i]) for i in range(256)), b"", b"", b"", b"", b"</think>", b"ab"], [259], special=SPECIAL
)
CALL = {"type": "token", "token": "<|call|>"}
END = {"type": "token", "token": "<|end|>"}
DIGITS = {"type": "regex", "pattern": r"\d+"}
X = {"type": "const_string", "value": "x"}
ONE = {"type": "tag", "begin": CALL, "content": DIGITS, "end": END}
TRIGGERED = {"type": "token_triggered_tags", "trigger_tokens": ["<|call|>"], "tags": [ONE]}
DISPATCH = {"type": "token_dispatch", "rules": [["<|call|>", X], ["</think>", DIGITS]]}
C, E, OTHER, T = "<|call|>", "<|end|>", "<|other|>", "</think>"


def ids(*parts: str) -> list[int]:
    """Token ids: a name of a token is that token, everything else is spelled in bytes."""
    listed: list[int] = []
    for part in parts:
        named = MARKUP if part == T else SPECIAL.get(part)
        listed += [named] if named is not None else part.encode()
    return listed


def accepts(automaton: Any, tokens: list[int]) -> bool:
    states = automaton.walk(automaton.start, tokens)
    return len(states) == len(tokens) and automaton.accepts(states[-1] if states else automaton.start)


FORMATS: list[tuple[dict[str, Any], list[list[int]], list[list[int]]]] = [
    (CALL, [ids(C)], [[], list(C.encode()), ids(C, C), ids(E)]),
    ({"type": "token", "token": T}, [ids(T)], [list(T.encode()), []]),
    ({"type": "sequence", "elements": [X, CALL, DIGITS]}, [ids("x", C, "12")], [ids("x", "12"), ids(C, "1")]),
    ({"type": "or", "elements": [CALL, END]}, [ids(C), ids(E)], [ids(C, E)]),
    ({"type": "star", "content": CALL}, [[], ids(C, C)], [ids(E)]),
    (ONE, [ids(C, "12", E)], [ids(C, "12"), ids(C, E), list(b"<|call|>12<|end|>")]),
    # Free text between tokens contains any text, also texts that spell the end; no special token stands in it.
    (
        {**ONE, "content": {"type": "any_text"}},
        [ids(C, E), [*ids(C), *b"<|end|>", *ids(E)]],
        [ids(C, OTHER, E)],
    ),
    (
        {**ONE, "content": {"type": "any_tokens"}, "end": "."},
        [ids(C, "x."), ids(C, ".")],
        [ids(C, "x..")],
    ),
    ({"type": "any_tokens", "exclude_tokens": [T]}, [list(T.encode()), ids("x")], [ids(T), ids(C)]),
    ({"type": "any_tokens", "exclude_tokens": []}, [ids(T), [261]], [ids(C)]),
    (
        {"type": "any_tokens", "exclude_tokens": [T], "max_tokens": 2},
        [ids("xx"), [261]],
        [ids("xxx"), ids(T)],
    ),
    ({**ONE, "content": {"type": "any_text", "max_tokens": 2}}, [ids(C, "xx", E)], [ids(C, "xxx", E)]),
    ({"type": "exclude_token"}, [ids("x"), ids(T), [261]], [[], ids("xx"), ids(C), list("é".encode())]),
    ({"type": "exclude_token", "exclude_tokens": [T]}, [ids("x"), [261]], [ids(T), ids(C), ids(E)]),
    (TRIGGERED, [[], ids("so ", C, "12", E, "."), [*b"<|call|>"]], [ids(C, "x", E), ids(E), ids(C)]),
    ({**TRIGGERED, "at_least_one": True}, [ids(C, "1", E, "x")], [[], ids("x", C, "1", E)]),
    ({**TRIGGERED, "stop_after_first": True}, [ids("x", C, "1", E), ids("x")], [ids(C, "1", E, "x")]),
    ({**TRIGGERED, "exclude_tokens": [T]}, [ids("x")], [ids(T)]),
    (
        {"type": "tag", "begin": "<o>", "content": TRIGGERED, "end": "</o>"},
        [ids("<o>x", C, "1", E, "</o>")],
        [ids("<o></o></o>")],
    ),
    (DISPATCH, [ids("so ", C, "x and ", T, "12."), [*b"</think>x"]], [ids(T, "x"), ids(C)]),
    ({**DISPATCH, "loop": False}, [ids("so ", C, "x")], [ids(C, "x.")]),
    (
        {"type": "tags_with_separator", "tags": [ONE], "separator": ", "},
        [ids(C, "1", E, ", ", C, "2", E)],
        [ids(C, "1", E, C, "2", E)],
    ),
    # A text that has the name of a token of the definition is spelled; one with the name of another may be that token.
    (
        {"type": "sequence", "elements": [CALL, {"type": "const_string", "value": "<|call|><|other|>"}]},
        [[*ids(C), *b"<|call|>", *ids(OTHER)], [*ids(C), *b"<|call|><|other|>"]],
        [ids(C, C, OTHER)],
    ),
]


@pytest.mark.parametrize(("form", "good", "bad"), FORMATS)
def test_a_format(form: dict[str, Any], good: list[list[int]], bad: list[list[int]]) -> None:
    automaton = compile(structural_tag(of(form)), VOCABULARY)
    assert [tokens for tokens in good if not accepts(automaton, tokens)] == []
    assert [tokens for tokens in bad if accepts(automaton, tokens)] == []


@pytest.mark.parametrize(
    ("form", "place", "error"),
    [
        ({"type": "token", "token": -1}, "#/format/token", InvalidConstraint),
        ({"type": "token", "token": 1 << 31}, "#/format/token", InvalidConstraint),
        ({"type": "token", "token": 3.0}, "#/format/token", InvalidConstraint),
        ({"type": "token", "token": ""}, "#/format/token", InvalidConstraint),
        ({"type": "token", "token": True}, "#/format/token", InvalidConstraint),
        ({"type": "token"}, "#/format/token", InvalidConstraint),
        ({**ONE, "begin": {"type": "token", "token": -3}}, "#/format/begin/token", InvalidConstraint),
        ({**ONE, "begin": {**CALL, "n": 1}}, "#/format/begin/n", UnsupportedConstraint),
        ({"type": "exclude_token", "exclude_tokens": T}, "#/format/exclude_tokens", InvalidConstraint),
        ({"type": "exclude_token", "max_tokens": 3}, "#/format/max_tokens", UnsupportedConstraint),
        ({"type": "any_tokens", "max_tokens": -3}, "#/format/max_tokens", InvalidConstraint),
        ({"type": "any_tokens", "exclude_tokens": [C, None]}, "#/format/exclude_tokens/1", InvalidConstraint),
        ({**TRIGGERED, "trigger_tokens": []}, "#/format/trigger_tokens", InvalidConstraint),
        ({**TRIGGERED, "trigger_tokens": [C, E]}, "#/format/trigger_tokens/1", InvalidConstraint),
        ({**TRIGGERED, "trigger_tokens": [E]}, "#/format/tags/0/begin", InvalidConstraint),
        ({**TRIGGERED, "tags": [{**ONE, "begin": C}]}, "#/format/tags/0/begin", InvalidConstraint),
        ({"type": "triggered_tags", "triggers": ["<"], "tags": [ONE]}, "#/format/tags/0/begin", InvalidConstraint),
        ({**DISPATCH, "rules": [[C]]}, "#/format/rules/0", InvalidConstraint),
        ({**DISPATCH, "rules": [[-7, X]]}, "#/format/rules/0/0", InvalidConstraint),
    ],
)  # fmt: skip
def test_a_definition_that_is_refused(form: Any, place: str, error: type[ConstrainedError]) -> None:
    with pytest.raises(error) as refused:
        structural_tag(of(form))
    assert refused.value.problems[0].place == place
    assert refused.value.action


def numbered(form: Any) -> Any:
    """A format with the numbers of its tokens in place of their names."""
    if isinstance(form, dict):
        return {key: one if key == "value" else numbered(one) for key, one in form.items()}
    if isinstance(form, list):
        return [numbered(one) for one in form]
    return {**SPECIAL, T: MARKUP}.get(form, form) if isinstance(form, str) else form


@pytest.mark.parametrize(("form", "good", "bad"), FORMATS)
def test_tokens_by_number_are_those_by_name(form: Any, good: list[list[int]], bad: list[list[int]]) -> None:
    automaton = compile(structural_tag(of(numbered(form))), VOCABULARY)
    assert [tokens for tokens in good if not accepts(automaton, tokens)] == []
    assert [tokens for tokens in bad if accepts(automaton, tokens)] == []
    for tokens in good:
        assert automaton.vocabulary.decode(tokens) == compile(
            structural_tag(of(form)), VOCABULARY
        ).vocabulary.decode(tokens)


@pytest.mark.parametrize("name", ["<|eos|>", "<|none|>", "a", 259, 97, 262])
def test_a_token_that_cannot_be_written(name: str | int) -> None:
    """One that ends a sequence, one that does not exist, and one that is the only way to write its byte."""
    with pytest.raises(VocabularyError, match=r"ends a sequence|is no special token|outside of|single byte"):
        compile(structural_tag(of({"type": "token", "token": name})), VOCABULARY)


def test_the_value_is_the_text_with_the_names() -> None:
    automaton = compile(structural_tag(of(TRIGGERED)), VOCABULARY)
    text = automaton.vocabulary.decode(ids("so ", C, "12", E)).decode()
    assert text == "so <|call|>12<|end|>"
    assert structural_tag(of(TRIGGERED)).parse(text) == text


def test_a_tag_behind_reasoning_keeps_its_tokens() -> None:
    automaton = compile(after("</think>", structural_tag(of(ONE))), VOCABULARY)
    assert accepts(automaton, [*b"hm</think>", *ids(C, "1", E)])
    assert not accepts(automaton, [*b"hm</think><|call|>1", *ids(E)])


def test_a_section_of_tag_cannot_have_tokens() -> None:
    with pytest.raises(UnsupportedConstraint, match="special tokens"):
        tag("<a>", structural_tag(of(ONE)), "</a>")


def test_xgrammar_accepts_the_same_tokens() -> None:
    """Two differences are meant: special tokens stand only where they are named, and free text excludes the end around it."""
    xgrammar = pytest.importorskip("xgrammar")
    names = {number: name.encode() for name, number in SPECIAL.items()}
    tokens = [names.get(i, data) for i, data in enumerate(VOCABULARY.tokens)]
    info = xgrammar.TokenizerInfo(
        tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[259]
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    chance = random.Random(3)
    compared = 0
    for form, good, bad in [*FORMATS, *((numbered(form), *texts) for form, *texts in FORMATS)]:
        if form["type"] in ("any_tokens", "tag") or "<|call|><|other|>" in str(form):
            continue
        automaton, theirs = (
            compile(structural_tag(of(form)), VOCABULARY),
            compiler.compile_structural_tag(of(form)),
        )
        for text in [*good, *bad]:
            for _ in range(8):
                changed = [*text]
                if changed:
                    changed[chance.randrange(len(changed))] = chance.choice([*text, 256, 260, 261])
                matcher = xgrammar.GrammarMatcher(theirs)
                ours = accepts(automaton, changed)
                compared += 1
                if ours != all(map(matcher.accept_token, [*changed, 259])):
                    assert not ours
                    assert 257 in changed, (form, changed)  # a special token in free text
    assert compared > 600
