"""Tokens that end a key and go on: into the value, past it, and into the next key, where members stand in any order."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from constrained.automaton import DEAD, TokenAutomaton
from constrained.automaton.bitmask import unpack_ids
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from constrained.vocabulary import Vocabulary
from tests.support.examples import examples

BYTES = [bytes((byte,)) for byte in range(256)]
LONG = [
    *(b'":', b'": ', b'":"', b'": "', b'":1', b'":1,', b'":1,"', b'":1, "a', b'":[],', b'":[],"', b'":{}}', b'":{"a":'),
    *(b'":"",', b'":"","', b'":"","":', b'":null,"x-', b'",', b'","', b', "', b',"a":', b'"a":1,"a":1', b'"x-":0,"x-":0'),
    *(b'"":1,"":1', b'a":1,"ab":', b'b":true}', b'e,"', b'e, "ab', b'1}', b'1,"b', b'}}', b'},"', b'{"a', b'{"a":{"a'),
]  # fmt: skip
TOKENS = [*BYTES, *LONG]
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], [len(TOKENS)])
INSIDE = [*BYTES, b'":', b'": ', b'":"', b'": "', b'":1', b'","', b', "']  # none leaves the value after a key
INSIDE_VALUES = Vocabulary.from_bytes([*INSIDE, b""], [len(INSIDE)])
ONE_BYTE = Vocabulary.from_bytes([*BYTES, b""], [256])

SCHEMAS: list[dict[str, Any]] = [
    {"properties": {"a": {"type": "integer"}, "ab": {"type": "boolean"}, "b": {"enum": ["", 1]}}},
    {"properties": {"a": {}, "ab": {"type": "null"}}, "required": ["ab"], "additionalProperties": False},
    {"patternProperties": {"^x-": {"type": "integer"}}, "minProperties": 2, "properties": {"a": {"type": "integer"}}},
    {"patternProperties": {"^x-": {}, "^a$": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
    {"propertyNames": {"enum": ["a", "ab", "b"]}, "minProperties": 2, "additionalProperties": {"type": "integer"}},
    {"propertyNames": {"maxLength": 1}, "maxProperties": 2},
    {"properties": {"a": {"$ref": "#"}}, "dependentRequired": {"a": ["b"]}, "additionalProperties": {"enum": [1, True]}},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_token_is_allowed_where_its_bytes_are(schema: dict[str, Any]) -> None:
    grammar = lower_schema({"type": "object", **schema}, SchemaOptions(property_order="any")).grammar
    automaton, judge = TokenAutomaton(grammar, VOCABULARY), TokenAutomaton(grammar, ONE_BYTE)
    mask = automaton.new_mask()
    for seed in range(examples(12)):
        rng = random.Random(seed)
        state, byte_state, text = automaton.start, judge.start, b""
        for _ in range(14):
            automaton.fill_mask(state, mask)
            after = {}
            for token, spelled in enumerate(TOKENS):
                reached = byte_state
                for byte in spelled:
                    reached = judge.next(reached, byte)
                if reached != DEAD:
                    after[token] = reached
            assert set(unpack_ids(mask)) - {len(TOKENS)} == after.keys(), text
            if not after:
                break
            token = rng.choice([token for token in after if token >= len(BYTES)] or list(after))
            if rng.random() < 0.3:
                token = rng.choice(list(after))
            state, byte_state = automaton.next(state, token), after[token]
            text += TOKENS[token]
            assert automaton.shortest_completion(state) <= judge.shortest_completion(byte_state), text


def spell(automaton: TokenAutomaton, state: int, text: str) -> int:
    """The state after a text, byte by byte, with a mask at each step."""
    mask = automaton.new_mask()
    for byte in text.encode():
        automaton.fill_mask(state, mask)
        state = automaton.next(state, byte)
        assert state != DEAD
    return state


@pytest.mark.parametrize("patterns", [{}, {"patternProperties": {"^x-": {}}}], ids=["plain", "patterns"])
def test_masks_inside_a_key_are_those_of_the_members_before(patterns: dict[str, Any]) -> None:
    """Each member leaves another set of members open, but what its key and its value allow is the same."""
    names = [f"{letter}-member" for letter in "abcdefghijklmnopqrstuvwyz"]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, **patterns}
    automaton = TokenAutomaton(
        lower_schema(schema, SchemaOptions(property_order="any")).grammar, INSIDE_VALUES
    )
    state = spell(automaton, automaton.start, '{"')
    made = []
    for name in names:
        state = spell(automaton, state, name)
        before = automaton.memory["mask_keys"]
        mask = automaton.new_mask()
        automaton.fill_mask(state, mask)
        made.append(automaton.memory["mask_keys"] - before)
        state = spell(automaton, state, f'{json.dumps(name)[-1]}: 1, "')
    assert sum(made[2:]) == 0
    # A state for each byte that is written, and few besides: none for each token that could have been.
    assert automaton.memory["states"] < 30 * len(names)
