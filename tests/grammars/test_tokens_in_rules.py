"""Tokens in Lark grammars and GBNF: `<|call|>`, `<[128]>`, `<[128-140,150]>`; in GBNF also `!<|call|>`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import pytest

import constrained
from constrained.automaton import DEAD, compile
from constrained.errors import (
    ConstrainedError,
    ConstraintTooLarge,
    InvalidConstraint,
    UnsupportedConstraint,
    VocabularyError,
)
from constrained.grammars.notation.lark import special_tokens
from constrained.vocabulary import Vocabulary

EOS, THINK, END, TOOL, OTHER, WORD, UNNAMED = range(256, 263)
SPECIAL = {"<eos>": EOS, "<think>": THINK, "</think>": END, "<tool>": TOOL, "[X]": OTHER}
TEXTS = [*(bytes((byte,)) for byte in range(256)), b"", b"", b"", b"", b"", b"abc", b""]
VOCABULARY = Vocabulary(TEXTS, [EOS], special=SPECIAL)
LETTERS = {END: "E", THINK: "T", TOOL: "L", OTHER: "X", WORD: "W", UNNAMED: "U", EOS: "$"}
"""A letter for each token, for the plain definitions."""

CASES: dict[str, tuple[str, str, str]] = {  # the grammar, a pattern over letters, and the letters to try
    "by name": ('start: <think> /[a-b]*/ </think> "b"', "T[ab]*Eb", "TEab"),
    "before and after free text": ("start: TEXT (<tool> /[ab]/)*\nTEXT: /[^ab]*/", "[^abTL]*(L[ab])*", "L<ab"),
    "numbers and ranges": (f'start: <[{THINK}-{END},{OTHER}]>+ "b"', "[TEX]+b", "TELXb"),
    "an ordinary token": (f'start: <[{WORD}]> "b"', "Wb", "Wabc"),
    "beside a text that ends with its letters": (f'start: "ab" <[{WORD}]> "c"', "abWc", "Wabc"),
    "without a name": (f'start: <[{UNNAMED}]> "b"', "Ub", "UTb"),
    "ends of sequences are left out": (f'start: <[{EOS}-{END}]> "b"', "[TE]b", "$TEb"),
    "optional": ('start: "a"? <think>? "c"', "a?T?c", "Tac"),
    "in a count": ('start: <think>{2,3} "a"', "T{2,3}a", "Ta"),
    "a complement holds none": ('start: A <think> "a"\nA: ~"b" & /.?/', "[^bTL]?Ta", "TLab"),
}  # fmt: skip
# llguidance has no templates, takes the first set that has the token, and drops no white space after the last terminal.
OURS: dict[str, tuple[str, str, str]] = {
    "ignored text after a token": ('start: <think> "a" "b"\n%ignore " "', " *T *a *b *", "Tab "),
    "in a template": ('start: both{<think>} both{<tool>}\nboth{x}: x "a" x?', "TaT?LaL?", "TLa"),
    "sets that overlap": (f'start: <[{THINK}]> "b" | <[{THINK}-{TOOL}]> "c" | <[{END},{OTHER}]> "a"', "Tb|[TEL]c|[EX]a", "TELXab"),
}  # fmt: skip
GBNF: dict[str, tuple[str, str, str]] = {
    "GBNF": ('root ::= <think> [ab]* </think> "b"', "T[ab]*Eb", "TEab"),
    "GBNF: numbers": (f'root ::= <[{THINK}]>+ "b" <[{OTHER}]>', "T+bX", "TEXb"),
    "GBNF: free text": ("root ::= <think> text </think>\ntext ::= !</think>*", "T[Tab]*E", "TELab"),
    "GBNF: some free text": ("root ::= !</think>+ </think>", "[Wa]+E", "EWa"),
    "GBNF: one other token": (f'root ::= !<[{END}]> "b" <think>?', "[TWab]bT?", "TEWab"),
    "GBNF: other tokens, counted": ('root ::= !<think>{1,2} "b"', "[Wab]{1,2}b", "TWab"),
    "GBNF: no tokens": ('root ::= "a<b>" [<b>] # <nope>', "a<b>[<b>]", "a<b>"),
}  # fmt: skip


def accepts(grammar: str) -> Callable[[Sequence[int]], bool]:
    notation = constrained.gbnf if "::=" in grammar else constrained.lark
    automaton = compile(notation(grammar), VOCABULARY)

    def read(tokens: Sequence[int]) -> bool:
        state = automaton.start
        for token in tokens:
            state = DEAD if token == EOS else automaton.next(state, token)
        return state != DEAD and automaton.accepts(state)

    return read


def sequences(letters: str, length: int = 5) -> list[list[int]]:
    ids = {letter: token for token, letter in LETTERS.items()}
    words = (itertools.product(letters, repeat=n) for n in range(length + 1))
    return [[ids.get(letter, ord(letter)) for letter in word] for some in words for word in some]


def spelled(tokens: Sequence[int]) -> str:
    return "".join(LETTERS.get(token) or chr(token) for token in tokens)


@pytest.mark.parametrize("name", [*CASES, *OURS, *GBNF])
def test_the_tokens_are_those_of_a_plain_definition(name: str) -> None:
    grammar, pattern, letters = (CASES | OURS | GBNF)[name]
    read, means, texts = accepts(grammar), re.compile(pattern), sequences(letters)
    found = [spelled(tokens) for tokens in texts if read(tokens)]
    assert found
    assert found == [text for text in map(spelled, texts) if means.fullmatch(text)]


@pytest.mark.parametrize("name", CASES)
def test_llguidance_accepts_the_same_tokens(name: str) -> None:
    llguidance = pytest.importorskip("llguidance")

    names = {token: name for name, token in SPECIAL.items()} | {UNNAMED: "<unnamed>"}

    class Tokens:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id, self.special_token_ids = EOS, None, list(names)
            self.tokens = [text or names[token].encode() for token, text in enumerate(TEXTS)]

        def __call__(self, text: str | bytes) -> list[int]:
            return list(text.encode() if isinstance(text, str) else text)

    grammar, _, letters = CASES[name]
    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens()))
    first = llguidance.LLMatcher(tokenizer, grammar, log_level=0)
    assert not first.is_error(), first.get_error()
    read = accepts(grammar)

    def theirs(tokens: list[int]) -> bool:
        matcher = first.deep_copy()
        return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())

    texts = sequences(letters)
    found = [spelled(tokens) for tokens in texts if theirs(tokens)]
    assert found
    assert [spelled(tokens) for tokens in texts if read(tokens)] == found


def test_a_token_is_no_text_and_decodes_to_its_name() -> None:
    automaton = compile(
        constrained.lark(f"start: <think> <[{TOOL}-{OTHER}]> <[{WORD}]> <[{UNNAMED}]>"), VOCABULARY
    )
    state = automaton.start
    assert automaton.next(state, ord("<")) == DEAD
    for token in (THINK, OTHER, WORD, UNNAMED):
        state = automaton.next(state, token)
    assert automaton.accepts(state)
    written = automaton.vocabulary.decode([THINK, OTHER, TOOL, WORD, UNNAMED, ord("a")])
    assert written == b"<think>[X]<tool>abc<[262]>a"


def test_tokens_of_an_embedded_constraint_are_those_of_the_grammar() -> None:
    tag = constrained.structural_tag(
        {
            "type": "structural_tag",
            "format": {
                "type": "sequence",
                "elements": [{"type": "token", "token": "<think>"}, {"type": "const_string", "value": "a"}],
            },
        }
    )
    constraint = constrained.lark("start: <tool> @x <tool>", embed={"x": tag}, lexer="dynamic")
    assert set(constraint.special_tokens) == {"<tool>", "<think>"}
    automaton = compile(constraint, VOCABULARY)
    state = automaton.start
    for token in (TOOL, THINK, ord("a"), TOOL):
        state = automaton.next(state, token)
    assert state != DEAD
    assert automaton.accepts(state)
    around = constrained.lark("start: <think> @y", embed={"y": constraint})
    automaton = compile(around, VOCABULARY)
    state = automaton.start
    for token in (THINK, TOOL, THINK, ord("a"), TOOL):
        state = automaton.next(state, token)
    assert automaton.accepts(state)


def test_the_value_is_the_text_with_names() -> None:
    constraint = constrained.lark("start: <think> /[a-z]+/")
    assert constraint.special_tokens == ("<think>",)
    assert constraint.parse("<think>ab") == "<think>ab"
    assert constraint != constrained.lark("start: <tool> /[a-z]+/")
    with pytest.raises(UnsupportedConstraint) as caught:
        constrained.lark('start: <think> "a"', value="tree")
    assert caught.value.problems[0].place == "<think>"


def test_sets_are_cut_into_parts_without_overlap() -> None:
    names = special_tokens("start: <[1-9]> <[5,7-20]> <[9-1000]> <a> <[1-9]>")
    assert sorted(names) == sorted(["<[1-4,6]>", "<[5,7-8]>", "<[9]>", "<[10-20]>", "<[21-1000]>", "<a>"])


REFUSED: list[tuple[str, type[ConstrainedError], str]] = [
    ("start: <nope>", VocabularyError, "'<nope>' is no special token"),
    ('start: "a" <eos>', VocabularyError, "'<eos>' ends a sequence"),
    (f"start: <[{EOS}]>", VocabularyError, "ends a sequence"),
    ("start: <[97-99]>", VocabularyError, "the single byte b'a'"),
    ("start: <[263]>", VocabularyError, "outside of a vocabulary of 263"),
    ("start: <[3-" + "9" * 20 + "]>", VocabularyError, "outside of a vocabulary of 263"),
    (f"start: <think> <[{THINK}]>", VocabularyError, "token 257 has two names"),
    ("start: <[^257]>", UnsupportedConstraint, "line 1, column 8     the token <[^257]> has any text"),
    ("start: <[*]>", UnsupportedConstraint, "the token <[*]> has any text"),
    ("start: <[]>", InvalidConstraint, "a token or a range expected in <[]>"),
    ("start: <[1, 2]>", InvalidConstraint, "a token or a range expected in <[1, 2]>"),
    ("start: <[²]>", InvalidConstraint, "a token or a range expected"),
    ("start: <[" + "9" * 30 + "]>", InvalidConstraint, "at most 20 digits"),
    ("start: <[9-3]>", InvalidConstraint, "the range 9-3 of tokens ends before it begins"),
    ("start: <a b>", InvalidConstraint, "a token is named between < and >"),
    ('start: "a" <', InvalidConstraint, "line 1, column 12     a token is named between < and >"),
    ("start: A\nA: <think>", InvalidConstraint, "line 2, column 4     a token is no text"),
    ("start: x\nx[lazy]: <think>", InvalidConstraint, "line 2, column 10     a token is no text"),
    ("start: " + " ".join(f"<a{i}>" for i in range(14)), ConstraintTooLarge, "at most 13 tokens"),
    ("start: " + " ".join(f"<[1-{i}]>" for i in range(2, 200)), ConstraintTooLarge, "at most 100 sets of tokens"),
    ("start: <[" + ",".join(map(str, range(0, 30_000, 2))) + "]>", ConstraintTooLarge, "10000 ranges"),
]  # fmt: skip


@pytest.mark.parametrize(("grammar", "error", "reason"), REFUSED)
def test_what_is_no_token_of_a_text_is_refused(
    grammar: str, error: type[ConstrainedError], reason: str
) -> None:
    with pytest.raises(error) as caught:
        accepts(grammar)
    assert reason in str(caught.value)
