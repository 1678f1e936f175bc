"""How rows are put together: every token of a mask is one after which the automaton goes on, read byte by byte."""

from __future__ import annotations

import random
from itertools import product

import pytest

from constrained.automaton import DEAD, TokenAutomaton, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import regex
from constrained.vocabulary import Vocabulary
from tests.support.examples import examples

BEFORE = ["", "a", "b", "aa", "ab", "ba", ".", "!", " a", "7", "12", "t"]
BEHIND = [
    '"', '",', '", "', '","', '": ', '": "', '":', '"}', '"},', '"}]', '"]', ",", ", ", ', "', "}", "}}",
    "}, ", "]",
]  # fmt: skip


def vocabulary(many: int) -> Vocabulary:
    """Tokens that leave a string in many ways, which few texts follow; and `many` words, so that rows are bits."""
    words = [f"{a}{b}{c}" for a, b, c in product("abcdefghij", repeat=3)][:many]
    texts = {x + y for x, y in product(BEFORE, ["", *BEHIND])} | set(words)
    tokens = [bytes([byte]) for byte in range(128)] + sorted(text.encode() for text in texts if len(text) > 1)
    return Vocabulary.from_bytes([*tokens, b""], eos_ids=[len(tokens)])


SCHEMAS = [
    {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "ab": {"type": "integer"}},
    },
    {"type": "array", "items": {"type": "string"}},
    {
        "type": "array",
        "items": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    },
    {"type": "object", "properties": {letter: {"type": "string", "maxLength": 2} for letter in "abcdefgh"}},
    {"type": "object", "additionalProperties": {"enum": ["a", "ab", "b", 7, 12]}},
    {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
        "required": ["a"],
        "additionalProperties": {"type": "array", "items": {"type": "integer"}},
    },
]


def check(automaton: TokenAutomaton, state: int) -> list[int]:
    """Compares the mask with following each token; returns the allowed tokens that do not end the text."""
    size = automaton.vocabulary.size
    row = automaton.new_mask()
    automaton.fill_mask(state, row)
    allowed = [token for token in unpack_ids(row) if token < size]
    assert allowed == [token for token in range(size) if automaton.next(state, token) != DEAD]
    return [token for token in allowed if token not in automaton.vocabulary.eos_ids]


@pytest.mark.parametrize("many", [0, 1000])
def test_masks_are_the_tokens_that_can_be_followed(many: int):
    shared = vocabulary(many)
    draw = random.Random(many)
    for _ in range(examples(8)):
        for schema in draw.sample(
            SCHEMAS, len(SCHEMAS)
        ):  # what one schema left in the lexicon, the next one reads
            automaton = compile(schema, shared)
            state = automaton.start
            for _ in range(12):
                if not (ways := check(automaton, state)):
                    break
                state = automaton.next(state, draw.choice(ways))


def test_a_row_has_one_number_however_it_came_about():
    shared = vocabulary(1000)
    rows: dict[int, bytes] = {}
    for schema in SCHEMAS:
        automaton = compile(schema, shared)
        state, draw = automaton.start, random.Random(1)
        for _ in range(40):
            row = automaton.new_mask()
            automaton.fill_mask(state, row)
            number = automaton.mask_id(state)
            assert rows.setdefault(number, row.tobytes()) == row.tobytes()
            ways = [t for t in unpack_ids(row) if t not in shared.eos_ids]
            if not ways:
                break
            state = automaton.next(state, draw.choice(ways))
    assert len(set(rows.values())) == len(rows)


@pytest.mark.parametrize("count", [4, 8, 16, 20])
@pytest.mark.parametrize(
    "pattern",
    [r"^(?:\S+\s+){0,%d}\S+$", "^(ab){0,%d}c$", "^(a[b.]){2,%d}((ab)+7){0,%d}$"],
    ids=["words", "pairs", "two"],
)
def test_tokens_of_many_copies_of_a_counter_are_those_that_can_be_read(pattern: str, count: int):
    """Residuals of high bounds are looked at without them: long tokens are what tells them apart."""
    copies = ["a ", "b  ", " a", "ab", "a.", "ab7", "a b "]
    texts = {
        copy * times + end
        for copy in copies
        for times in range(1, 12)
        for end in ("", "a", 'a"', "c", '"', "7")
    }
    tokens = [bytes([byte]) for byte in range(128)] + sorted(text.encode() for text in texts if len(text) > 1)
    words = Vocabulary.from_bytes([*tokens, b""], eos_ids=[len(tokens)])
    automaton = compile({"type": "string", "pattern": pattern % ((count,) * pattern.count("%d"))}, words)
    draw = random.Random(count)
    for _ in range(examples(6)):
        state = automaton.start
        for _ in range(30):
            if not (ways := check(automaton, state)):
                break
            going_on = [token for token in ways if token != ord('"')]
            state = automaton.next(state, draw.choice(going_on[-40:] or ways))


@pytest.mark.parametrize(
    "pattern", ["[0-9]{4,}é", "[0-9]{0,2}é", "([0-9]{3,4}-)+x", "(ab){2,}c", "[0-9a-f]{2,3}[^0-9a-f]"]
)
def test_tokens_that_leave_a_loop_may_have_more_copies_than_those_that_do_not(pattern: str):
    """No token of digits alone is as long as one with what follows them: bounds are told apart by these, too."""
    copies, ends = (
        (b"0", b"00", b"000", b"0000", b"00000", b"abab", b"ababab"),
        (b"\xc3", b"\xc3\xa9", b"-", b"c", b"x"),
    )
    tokens = [bytes([byte]) for byte in range(256)] + [copy + end for copy in copies for end in ends]
    words = Vocabulary.from_bytes([*tokens, b""], eos_ids=[len(tokens)])
    automaton = compile(regex(pattern), words)
    reached = {automaton.start}
    for _ in range(6):
        reached |= {automaton.next(state, token) for state in reached for token in check(automaton, state)}
    assert len(reached) > 4
