"""A token leads to the state to which its bytes lead, one by one; tables that grow lose nothing."""

from __future__ import annotations

import itertools
import random

import pytest

from constrained.automaton import DEAD, compile
from constrained.constraint import json_schema, regex
from constrained.vocabulary import Vocabulary

BYTES = [bytes((byte,)) for byte in range(256)]
NAMES = ("name", "names", "number", "né", "n", "", "private", 'a"b', "a\\b")
PIECES = [
    *(b'"' + name.encode() for name in NAMES),
    *(b'"' + name.encode() + b'":' for name in NAMES),
    *(name.encode() for name in NAMES if len(name) > 1),
    *(b'", "', b'": "', b'":"', b'": ', b'",', b'"}', b"}}", b"tes", b"estx", b'ate": 1', b'm\\u0062er": '),
    *(
        b"\\u0",
        b"\\u00",
        b"61",
        b"\\n",
        b"\xc3\xa9\xc3",
        b"tru",
        b"rue",
        b"true",
        b"12",
        b"1.5",
        b"aab",
        b"bbbaa",
        b"--a",
    ),
]  # fmt: skip
TOKENS = [*BYTES, *sorted({piece for piece in PIECES if len(piece) > 1}), b""]
VOCABULARY = Vocabulary.from_bytes(TOKENS, [len(TOKENS) - 1])

CONSTRAINTS = {
    "excluded names": json_schema(
        {"type": "object", "properties": {name: {"type": "integer"} for name in NAMES}}
    ),
    "names by pattern": json_schema(
        {"type": "object", "properties": {"name": {}}, "patternProperties": {"^n": {"type": "integer"}}}
    ),
    "excluded values": json_schema({"type": "string", "not": {"enum": ["name", "names", "private"]}}),
    "any order": json_schema(
        {"type": "object", "properties": {"name": {"type": "boolean"}, "number": {}}, "required": ["number"]},
        property_order="any",
    ),
    "different items": json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    "enum": json_schema({"enum": ["name", "names", "number", True, 12]}),
    "literals that may end": regex(r"(aab|aabbb|aa)*(--a|-)?"),
    "counts": regex(r'"[a-z]{2,6}(ate){0,2}"+'),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_token_leads_where_its_bytes_lead(name: str) -> None:
    draw = random.Random(name)
    for _ in range(40):
        automaton = compile(CONSTRAINTS[name], VOCABULARY)  # new: nothing is known from the walk before
        state = automaton.start
        mask = automaton.new_mask()
        for _ in range(12):
            automaton.fill_mask(state, mask)
            for token in draw.sample(range(256, len(TOKENS) - 1), 24):
                after = automaton.next(state, token)
                by_bytes = state
                for byte in TOKENS[token]:
                    by_bytes = automaton.next(by_bytes, byte) if by_bytes != DEAD else DEAD
                assert after == by_bytes, TOKENS[token]
                assert (after != DEAD) == bool(mask[token // 32] >> token % 32 & 1), TOKENS[token]
            following = [token for token in range(len(TOKENS) - 1) if mask[token // 32] >> token % 32 & 1]
            if not following:
                break
            longer = [token for token in following if token >= 256]
            state = automaton.next(state, draw.choice(longer or following))


def test_states_are_found_again_when_the_tables_have_grown() -> None:
    automaton = compile(regex("[ab]{0,40}c[ab]{3}"), Vocabulary.from_bytes([b"a", b"b", b"c", b""], [3]))

    def walk(text: tuple[int, ...]) -> list[int]:
        states = [automaton.start]
        for token in text:
            states.append(automaton.next(states[-1], token))
        return states

    texts = list(itertools.product((0, 1, 2), repeat=8))
    first = [walk(text) for text in texts]
    assert [walk(text) for text in texts] == first
    assert automaton.memory["states"] < 400  # equal contents have one number
