"""Grammars, quotations and free text around something structured: which texts, and what they are worth.

The judge is plain Python on every string over a few characters.
"""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Iterator

import pytest

import constrained
from constrained import (
    Constraint,
    Section,
    ThinkingResult,
    TokenAutomaton,
    Vocabulary,
    after,
    compile,
    substring_of,
    tag,
    tags,
)
from constrained.automaton import DEAD
from constrained.errors import (
    ConstraintTooLarge,
    InvalidConstraint,
    RejectedValue,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.grammars.text.substring import MAX_DOCUMENT_LENGTH, substring_grammar

BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


def texts(automaton: TokenAutomaton, alphabet: str, longest: int) -> set[str]:
    """Every accepted string over the alphabet; prefixes that are refused are not followed."""
    found = set()
    work = [("", automaton.start)]
    for text, state in work:
        if automaton.accepts(state):
            found.add(text)
        if len(text) == longest:
            continue
        for character in alphabet:
            states = automaton.walk(state, list(character.encode()))
            if len(states) == len(character.encode()):
                work.append((text + character, states[-1]))
    return found


def follow(automaton: TokenAutomaton, text: str) -> int:
    """The state after a text, DEAD if it is refused."""
    data = text.encode()
    states = [automaton.start, *automaton.walk(automaton.start, list(data))]
    return states[-1] if len(states) > len(data) else DEAD


def strings(alphabet: str, longest: int) -> Iterator[str]:
    for length in range(longest + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


# ---------------------------------------------------------------- grammars


@pytest.mark.parametrize(("values", "kind"), [("ab", "str"), (None, "NoneType"), (5, "int")])
def test_choices_are_a_list(values, kind):
    with pytest.raises(InvalidConstraint, match=f"takes a list of values, not (one|a) {kind}"):
        constrained.choice(values)


def test_a_grammar_is_a_constraint() -> None:
    for made in (
        constrained.gbnf('root ::= root "+" root | [0-9]'),
        constrained.ebnf("sum ::= sum '+' sum | [0-9]"),
        constrained.gbnf('sum ::= sum "+" [0-9] | [0-9]', start="sum"),
    ):
        assert texts(compile(made, BYTES), "1+", 3) == {"1", "1+1"}
        assert made.parse("1+1") == "1+1"
        assert made.schema is None
        assert not made.is_json
        assert pickle.loads(pickle.dumps(made)) == made
    assert constrained.gbnf('root ::= "a"') != constrained.ebnf('root ::= "a"')
    assert "gbnf" in repr(constrained.gbnf('root ::= "a"'))


def test_a_mistake_in_a_grammar_is_shown_where_it_is() -> None:
    with pytest.raises(InvalidConstraint, match="line 2, column 7"):
        compile(constrained.gbnf('root ::= x\nx ::= "a'), BYTES)
    with pytest.raises(InvalidConstraint, match="str"):
        constrained.gbnf(b'root ::= "a"')  # type: ignore[arg-type]


# ---------------------------------------------------------------- quotations


@pytest.mark.parametrize("least", [0, 1, 2, 4])
def test_the_spans_are_the_slices(least: int) -> None:
    rng = random.Random(least)
    for _ in range(15):
        document = "".join(rng.choice("abé") for _ in range(rng.randrange(least, 10)))
        slices = {
            document[start:end]
            for start, end in itertools.combinations_with_replacement(range(len(document) + 1), 2)
            if end - start >= least
        }
        automaton = TokenAutomaton(substring_grammar(document, min_length=least), BYTES)
        assert texts(automaton, "abé", 10) == slices, document


def test_a_span_ends_between_characters() -> None:
    automaton = compile(substring_of("né 😀"), BYTES)
    at = automaton.start
    for byte, complete in zip("é 😀".encode(), [False, True, True, False, False, False, True], strict=True):
        at = automaton.next(at, byte)
        assert at
        assert automaton.accepts(at) == complete


def test_a_long_document() -> None:
    rng = random.Random(3)
    words = ["".join(rng.choice("etaoinshrdlu") for _ in range(rng.randrange(2, 9))) for _ in range(300)]
    document = " ".join(rng.choice(words) for _ in range(800))
    automaton = compile(substring_of(document, min_length=3), BYTES)
    for _ in range(50):
        start = rng.randrange(len(document) - 60)
        span = document[start : start + rng.randrange(1, 60)]
        assert automaton.accepts(follow(automaton, span)) == (len(span) >= 3)
        assert follow(automaton, span) != DEAD
        assert follow(automaton, span + "q") == DEAD


def test_what_cannot_be_quoted() -> None:
    with pytest.raises(UnsatisfiableConstraint, match="2 characters"):
        compile(substring_of("ab", min_length=3), BYTES)
    with pytest.raises(ConstraintTooLarge, match="at most"):
        compile(substring_of("a" * (MAX_DOCUMENT_LENGTH + 1)), BYTES)
    with pytest.raises(InvalidConstraint, match="min_length"):
        substring_of("a", min_length=-1)
    with pytest.raises(InvalidConstraint, match="Unicode"):
        compile(substring_of("a\ud800"), BYTES)
    assert substring_of("ab") == substring_of("ab") != substring_of("ab", min_length=2)


# ---------------------------------------------------------------- sections in free text

ONE = {"enum": [1, ">"]}


def sections(text: str, begin: str, contents: set[str], end: str) -> int | None:
    """Number of sections; None when a section is not as it must be. By the book: the first `begin` opens one."""
    found = 0
    while begin in text:
        text = text[text.index(begin) + len(begin) :]
        content = next((one for one in sorted(contents, key=len) if text.startswith(one + end)), None)
        if content is None:
            return None
        text = text[len(content) + len(end) :]
        found += 1
    return found


@pytest.mark.parametrize("begin", ["<", "<<", "<a<"])
def test_every_opening_marker_opens_a_section(begin: str) -> None:
    made = tag(begin, ONE, ">")
    automaton = compile(made, BYTES)
    wanted = {text for text in strings('<a1>"', 6) if sections(text, begin, {"1", '">"'}, ">") is not None}
    assert texts(automaton, '<a1>"', 6) == wanted
    assert len(wanted) > 1000


def test_sections_are_counted() -> None:
    for least, most in ((0, 1), (1, None), (1, 2), (2, 2)):
        automaton = compile(tag("<", {"const": 1}, ">", at_least=least, at_most=most), BYTES)
        counts = {text: sections(text, "<", {"1"}, ">") for text in strings("<1>", 7)}
        wanted = {text for text, n in counts.items() if n is not None and least <= n <= (most or 99)}
        assert texts(automaton, "<1>", 7) == wanted


def test_a_pattern_ends_at_the_first_closing_marker() -> None:
    automaton = compile(tag("<", constrained.regex("a*>?>?"), ">>"), BYTES)
    inner = {text for text in texts(automaton, "<a>", 5) if text.startswith("<")}
    assert inner == {
        "<>>",
        "<a>>",
        "<aa>>",
        "<>>>",
        "<>>a",
        "<a>>>",
        "<a>>a",
        "<>>>>",
        "<>>aa",
        "<>>>a",
        "<>>a>",
    }


def test_the_value_is_what_stands_in_the_text() -> None:
    made = tag("<tool>", {"type": "object"}, "</tool>")
    call = {"say": "a </tool> b", "n": [1, 2]}
    text = f"Let me see.<tool>{json.dumps(call)}</tool> then <too <tool>{{}}</tool>"
    automaton = compile(made, BYTES)
    assert automaton.accepts(follow(automaton, text))
    assert made.parse(text) == [
        "Let me see.",
        Section("<tool>", call, json.dumps(call)),
        " then <too ",
        Section("<tool>", {}, "{}"),
    ]
    assert made.parse("") == []
    with pytest.raises(RejectedValue, match="not closed"):
        made.parse("<tool>{")


def test_sections_of_several_kinds() -> None:
    made = tags(
        tag("<a>", {"const": 1}, "</a>"),
        tag("<b>", int, "</b>"),
        tag("[", constrained.choice(["x", "y"]), "]"),
    )
    text = "<b>12</b><a>1</a>?[y]"
    automaton = compile(made, BYTES)
    assert automaton.accepts(follow(automaton, text))
    assert made.parse(text) == [
        Section("<b>", 12, "12"),
        Section("<a>", 1, "1"),
        "?",
        Section("[", "y", "y"),
    ]
    assert follow(automaton, "<a>2") == DEAD
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: tag("", {}, ">"), InvalidConstraint),
        (lambda: tag("<", {}, ""), InvalidConstraint),
        (lambda: tag("<", {}, "0>"), InvalidConstraint),
        (lambda: tag("<", {}, ">", at_least=2, at_most=1), InvalidConstraint),
        (
            lambda: tag("<", constrained.gbnf('root ::= "(" root ")" | "x"'), ">").grammar,
            UnsupportedConstraint,
        ),
        (lambda: tags(tag("<", {}, ">"), tag("<b", {}, ">")), InvalidConstraint),
        (lambda: tags(constrained.regex("a")), InvalidConstraint),
        (lambda: tags(), UnsatisfiableConstraint),
        (lambda: after("", {}), InvalidConstraint),
    ],
)
def test_ambiguous_markers_are_refused(make: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()  # type: ignore[operator]


# ---------------------------------------------------------------- thinking first


def test_thinking_ends_at_the_first_marker() -> None:
    automaton = compile(after("aab", constrained.regex("b?a?")), BYTES)
    wanted = {
        text for text in strings("ab", 7) if "aab" in text and text.split("aab", 1)[1] in {"", "a", "b", "ba"}
    }
    assert texts(automaton, "ab", 7) == wanted


def test_an_answer_has_its_thoughts_beside_it() -> None:
    made: Constraint = after("</think>", {"type": "array", "items": {"type": "integer"}})
    assert made.parse("One, two </thin </think>[1, 2]") == ThinkingResult("One, two </thin ", [1, 2])
    assert made.schema == {"type": "array", "items": {"type": "integer"}}
    automaton = compile(made, BYTES)
    assert automaton.accepts(follow(automaton, "né</think>[1]"))
    assert follow(automaton, "</think>x") == DEAD
    with pytest.raises(RejectedValue):
        made.parse("[1]")
    nested = after("</think>", tag("<t>", int, "</t>"))
    assert nested.parse("a</think>b<t>3</t>") == ThinkingResult("a", ["b", Section("<t>", 3, "3")])
    compile(nested, BYTES)
