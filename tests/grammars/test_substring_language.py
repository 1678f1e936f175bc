"""Substrings of a document and their relaxations, as text and inside JSON.

The judge lists every substring of a short document by the definition and computes masks from that list.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator

import pytest

from constrained import Vocabulary, compile, json_schema
from constrained.automaton import DEAD, TokenAutomaton
from constrained.errors import InvalidConstraint, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars import ir
from constrained.grammars.text.substring import (
    is_word_character,
    simple_fold,
    substring_of_chunks,
    substring_regex,
)
from tests.support.finite import FiniteAutomaton
from tests.support.judge import ReferenceRecognizer
from tests.support.matching import matches

ALPHABETS = ("ab ", "aAb\n ", 'a"\\\n', "é😀 \x00a", "ßẞſsS", "a \t\n_", "Kk\u212a\u00a0 ")
PIECES = ("a", "b", "A", " ", "\n", '"', "\\", "\\n", "é", "😀", "ss", "  ", " a", 'a"', '"}', "\\u", "ab a")


def substrings(document: str, *, any_case: bool, any_space: bool, whole_words: bool) -> set[str]:
    """Every non-empty substring, with what may stand for it."""
    found = set()
    for start, end in itertools.combinations(range(len(document) + 1), 2):
        inside = [
            0 < at < len(document) and all(map(is_word_character, document[at - 1 : at + 1]))
            for at in (start, end)
        ]
        if not (whole_words and any(inside)):
            found |= set(variants(document[start:end], any_case, any_space))
    return found


def variants(text: str, any_case: bool, any_space: bool) -> Iterator[str]:
    parts = []
    for part in re.split(r"(\s+)", text):
        if any_space and part.isspace():
            parts.append({part, " "})
        elif any_case:
            parts += [
                {other for other in CASES if simple_fold(other) == simple_fold(char)} | {char}
                for char in part
            ]
        else:
            parts.append({part})
    return map("".join, itertools.product(*parts))


def spelled(text: str) -> Iterator[str]:
    """The JSON encodings of a string without an escape that is not needed."""
    parts = []
    for char in text:
        plain = json.dumps(char, ensure_ascii=False)[1:-1]
        escapes = {f"\\u{ord(char):04x}", f"\\u{ord(char):04X}"}
        parts.append({plain, *escapes} if plain != char else {char})
    return map("".join, itertools.product(*parts))


CASES = "aAbBsSſßẞkK\u212aéÉ"
OPTIONS = [
    dict(zip(("any_case", "any_space", "whole_words"), choice, strict=True))
    for choice in itertools.product((False, True), repeat=3)
]


def vocabulary(rng: random.Random) -> Vocabulary:
    pieces = [piece.encode() for piece in rng.sample(PIECES, 12)]
    tokens = dict.fromkeys([bytes((byte,)) for byte in range(256)] + pieces)
    return Vocabulary.from_bytes([*tokens, b""], [len(tokens)])


def compare(automaton: TokenAutomaton, judge: FiniteAutomaton, rng: random.Random, steps: int) -> None:
    """Masks, acceptance, forced bytes and shortest completions along random walks."""
    for _ in range(steps):
        mine, theirs = automaton.start, judge.start
        while theirs > 1:
            assert automaton.accepts(mine) == judge.accepts(theirs)
            assert automaton.forced(mine) == judge.forced(theirs)
            # Counted along a completion of the fewest bytes, which may not be one of the fewest tokens.
            assert automaton.shortest_completion(mine) >= judge.shortest_completion(theirs)
            assert (automaton.shortest_completion(mine) == 0) == judge.accepts(theirs)
            mask, expected = automaton.new_mask(), judge.new_mask()
            automaton.fill_mask(mine, mask)
            judge.fill_mask(theirs, expected)
            assert mask.tolist() == expected.tolist()
            allowed = [*judge.moves[judge.prefixes[theirs - 2]]]
            if not allowed:
                break
            token = rng.choice(allowed)
            mine, theirs = automaton.next(mine, token), judge.next(theirs, token)
            assert mine != DEAD


@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda one: "-".join(name for name, on in one.items() if on) or "exact"
)
def test_masks_are_those_of_the_listed_substrings(options: dict[str, bool]) -> None:
    rng = random.Random(json.dumps(options))
    for alphabet in ALPHABETS:
        document = "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 8)))
        expected = substrings(document, **options)
        words = vocabulary(rng)
        if not expected:
            continue
        automaton = TokenAutomaton(ir.Grammar.of(substring_regex(document, **options)), words)
        compare(automaton, FiniteAutomaton(expected, words), rng, 8)


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda one: "-".join(name for name, on in one.items() if on) or "exact"
)
def test_masks_inside_json(options: dict[str, bool], ensure_ascii: bool) -> None:
    rng = random.Random(json.dumps(options) + str(ensure_ascii))
    keyword = {
        "case": "any" if options["any_case"] else "exact",
        "space": "any" if options["any_space"] else "exact",
        "words": options["whole_words"],
    }
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "x-span": keyword}},
        "required": ["a"],
        "additionalProperties": False,
    }
    for alphabet in ALPHABETS[:6]:
        document = "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 6)))
        expected = substrings(document, **options)
        if not expected:
            continue
        words = vocabulary(rng)
        constraint = json_schema(schema, whitespace="none", ensure_ascii=ensure_ascii).bind(document)
        if ensure_ascii:  # the many ways to write an escape are left out
            automaton = compile(constraint, words)
            for one in expected:
                data = json.dumps({"a": one}, separators=(",", ":")).encode()
                assert automaton.accepts(automaton.walk(automaton.start, list(data))[-1])
        else:
            texts = {f'{{"a":"{text}"}}' for one in expected for text in spelled(one)}
            compare(compile(constraint, words), FiniteAutomaton(texts, words), rng, 6)


def test_the_slow_searches_agree() -> None:
    rng = random.Random(5)
    for options in OPTIONS:
        for alphabet in ALPHABETS:
            document = "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 7)))
            expected = substrings(document, **options)
            if not expected:
                continue
            regex = substring_regex(document, **options)
            recognizer = ReferenceRecognizer(ir.Grammar.of(regex))
            others = {"".join(rng.choice(alphabet) for _ in range(rng.randrange(5))) for _ in range(30)}
            for text in {*rng.sample(sorted(expected), min(20, len(expected))), *others}:
                assert matches(regex, text) == (text in expected), (document, options, text)
                assert recognizer.accepts(text.encode()) == (text in expected), (document, options, text)


def joined_chunks(chunks: list[str]) -> set[str]:
    """Any number of consecutive chunks, by the definition."""
    return {"".join(chunks[i:j]) for i in range(len(chunks) + 1) for j in range(i, len(chunks) + 1)}


@pytest.mark.parametrize("seed", range(30))
def test_masks_are_those_of_the_listed_chunks(seed: int) -> None:
    rng = random.Random(seed)
    pieces = ("a", "ab", "b", "aba", " ", "  ", "é", "e", "", "a b", "éa", "😀")
    chunks = [rng.choice(pieces) for _ in range(rng.randrange(1, 9))]
    expected = joined_chunks(chunks)
    words = vocabulary(rng)
    for least in (0, 1):
        wanted = {text for text in expected if len(text) >= least}
        if not wanted:
            continue
        regex = substring_of_chunks(chunks, min_length=least)
        compare(TokenAutomaton(ir.Grammar.of(regex), words), FiniteAutomaton(wanted, words), rng, 8)
        # What follows begins as a chunk may.
        followed = TokenAutomaton(ir.Grammar.of(ir.concat(regex, ir.literal("ab"))), words)
        compare(followed, FiniteAutomaton({text + "ab" for text in wanted}, words), rng, 8)
        others = {"".join(rng.choice("ab é") for _ in range(rng.randrange(5))) for _ in range(30)}
        for text in {*rng.sample(sorted(wanted), min(10, len(wanted))), *others}:
            assert matches(regex, text) == (text in wanted), (chunks, text)


def test_chunks_with_characters_that_no_token_has() -> None:
    words = Vocabulary.from_bytes([bytes((byte,)) for byte in b"ab c"] + [b"ab", b""], [5])
    expected = {
        "".join(part[i:j]) for part in (["ab", "c"], [" ", "b"]) for i in range(3) for j in range(i, 3)
    }
    automaton = TokenAutomaton(ir.Grammar.of(substring_of_chunks(["ab", "c", "aéc", " ", "b"])), words)
    compare(automaton, FiniteAutomaton(expected, words), random.Random(0), 30)


def test_conjunctions_with_other_keywords() -> None:
    document = "Order 77 of 2026, total 240.50 EUR, order 12"
    words = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])

    def accepted(schema: object, text: str) -> bool:
        automaton = compile(json_schema(schema).bind(document), words)  # type: ignore[arg-type]
        data = json.dumps(text).encode()
        states = automaton.walk(automaton.start, list(data))
        return len(states) == len(data) and automaton.accepts(states[-1])

    long = {"type": "string", "x-span": True, "minLength": 5, "maxLength": 8}
    assert accepted(long, "Order 77")
    assert not accepted(long, "Orde")
    assert not accepted(long, "Order 77 ")
    digits = {"type": "string", "x-span": True, "pattern": "^[0-9]+$"}
    assert accepted(digits, "2026")
    assert not accepted(digits, "2027")
    assert not accepted(digits, "of")
    other = {"type": "string", "not": {"x-span": True}}
    assert accepted(other, "order 77")
    assert not accepted(other, "Order 77")
    listed = {"enum": ["Order", "Offer"], "x-span": True}
    assert accepted(listed, "Order")
    assert not accepted(listed, "Offer")


def test_what_cannot_be_enforced_is_an_error() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-span": True}}}
    constraint = json_schema(schema)
    assert constraint.needs_document
    assert not constraint.bind("x").needs_document
    words = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])
    with pytest.raises(UnsupportedConstraint, match=r"#/properties/a/x-span.*needs the document"):
        compile(constraint, words)
    with pytest.raises(InvalidConstraint, match="#/x-span"):
        compile(json_schema({"type": "string", "x-span": "yes"}).bind("x"), words)
    with pytest.raises(InvalidConstraint, match="#/x-span/case"):
        compile(json_schema({"type": "string", "x-span": {"case": "lower"}}).bind("x"), words)
    with pytest.raises(UnsatisfiableConstraint):
        compile(json_schema({"type": "string", "x-span": True, "minLength": 9}).bind("short"), words)
    with pytest.raises(InvalidConstraint, match="Unicode"):
        compile(json_schema({"type": "string", "x-span": True}).bind("\ud800"), words)
    assert json_schema({"type": "integer"}).bind("x") == json_schema({"type": "integer"})
    assert json_schema({"type": "string", "x-span": False}).needs_document is True


def test_a_vocabulary_without_some_bytes() -> None:
    tokens = [bytes((byte,)) for byte in b'ab cd"{}:'] + [b""]
    words = Vocabulary.from_bytes(tokens, [len(tokens) - 1])
    document = "abé cd ab"
    spans = {
        part[i:j] for part in ("ab", " cd ab") for i, j in itertools.combinations(range(len(part) + 1), 2)
    }
    judge = FiniteAutomaton(spans, words)
    automaton = TokenAutomaton(ir.Grammar.of(substring_regex(document)), words)
    compare(automaton, judge, random.Random(0), 30)
