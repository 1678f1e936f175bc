"""A call that its limit of work interrupts leaves nothing half-made: later masks and counts are those of a shard that never saw it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import constrained
from constrained import _core
from constrained.automaton import compile as compile_constraint
from constrained.automaton.bitmask import unpack_ids

CONSTRAINTS = {
    "a string": constrained.json_schema({"type": "string"}),
    "any value": constrained.json_schema({}),
    "items that differ": constrained.json_schema(
        {"type": "array", "items": {"properties": {"x": {"type": "integer"}}}, "uniqueItems": True}
    ),
    "names that exclude words": constrained.json_schema(
        {
            "properties": {"ab": {}, "abc": {"type": "string", "pattern": "^a.*b"}},
            "patternProperties": {"^x": {}},
        }
    ),
    "ambiguous rules": constrained.gbnf('root ::= s\ns ::= "a" s "b" | "(" s ")" s | [a-c] s | ""'),
}
SEEDS = 6


def interrupted_calls(automaton: Any, state: int, rng: random.Random) -> int:
    """How many of two calls with little work allowed were interrupted."""
    automaton.limit_work(rng.choice([3, 30, 300, 3000]))
    interrupted = 0
    for call in rng.choices(("mask", "mask within", "count"), k=2):
        try:
            if call == "mask":
                automaton.fill_mask(state, automaton.new_mask())
            elif call == "mask within":
                automaton.fill_mask_within(state, automaton.new_mask(), rng.randint(1, 30))
            else:
                automaton.shortest_completion(state)
        except _core.TooLarge:
            interrupted += 1
    automaton.limit_work(None)
    return interrupted


def masks_and_count(automaton: Any, state: int) -> tuple[list[int], list[int], int]:
    masks = automaton.new_mask(2)
    shortest = automaton.shortest_completion(state)
    automaton.fill_mask(state, masks[0])
    automaton.fill_mask_within(state, masks[1], shortest + 3)
    return unpack_ids(masks[0]).tolist(), unpack_ids(masks[1]).tolist(), shortest


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_after_interrupted_calls_are_those_of_a_fresh_shard(name: str) -> None:
    vocabulary = constrained.load().vocabulary
    interrupted = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        used, fresh = (compile_constraint(CONSTRAINTS[name], vocabulary.with_shards(1)) for _ in range(2))
        state, expected = used.start, fresh.start
        for _ in range(20):
            interrupted += interrupted_calls(used, state, rng)
            right = masks_and_count(fresh, expected)
            assert masks_and_count(used, state) == right
            ids = [token for token in right[0] if token not in vocabulary.eos_ids]
            if not ids:
                break
            token = rng.choice(ids)
            state, expected = used.next(state, token), fresh.next(expected, token)
    assert interrupted
