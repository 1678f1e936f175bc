"""Packed rules in the core: the automaton of the same rules as objects, and errors for arrays that make no sense."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from constrained.automaton import compile_grammar
from constrained.grammars import ir
from constrained.grammars.json_schema import PropertyOrder, SchemaOptions, lower_schema
from constrained.grammars.packed import PackedRules
from tests.support.finite import byte_vocabulary

SCHEMAS: list[Any] = [
    {},
    {"type": "object", "properties": {"a": {"type": "integer"}, "ab": {"enum": ["x", "é"]}}, "required": ["ab"]},
    {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "number", "minimum": 3}}},
    {"type": ["array", "null"], "items": {"type": "string", "maxLength": 2}, "minItems": 2, "maxItems": 3},
    {"type": "object", "properties": {"é": {"type": "boolean"}}, "additionalProperties": {"type": "null"}},
    {"type": "object", "properties": {"n": {"$ref": "#"}, "x": {"oneOf": [{"type": "object", "minProperties": 1}, {"required": ["a"]}]},
                                      "y": {"type": "array", "prefixItems": [{"type": "array", "items": {"$ref": "#"}}]}}},
]  # fmt: skip


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_automaton_of_the_same_objects(schema: Any, order: PropertyOrder) -> None:
    vocabulary = byte_vocabulary()
    grammar = lower_schema(schema, SchemaOptions(property_order=order)).grammar
    assert isinstance(grammar.rules, PackedRules)
    packed = compile_grammar(grammar, vocabulary)
    built = compile_grammar(ir.Grammar(dict(grammar.rules), grammar.start), vocabulary)
    for seed in range(5):
        rng = random.Random(seed)
        state, other = packed.start, built.start
        for _ in range(60):
            mask, same = packed.new_mask(), built.new_mask()
            packed.fill_mask(state, mask)
            built.fill_mask(other, same)
            assert (mask == same).all()
            assert packed.shortest_completion(state) == built.shortest_completion(other)
            allowed = [t for t in range(256) if mask[t // 32] >> (t % 32) & 1]
            if not allowed:
                break
            token = rng.choice(allowed)
            state, other = packed.next(state, token), built.next(other, token)


def _rules() -> PackedRules:
    rules = lower_schema(SCHEMAS[1]).grammar.rules
    assert isinstance(rules, PackedRules)
    return rules


@pytest.mark.parametrize("cut", [0, 4, 28, 100, -1])
def test_cut_arrays_are_refused(cut: int) -> None:
    rules = _rules()
    broken = PackedRules(rules.packed[:cut], rules.leaves, rules.names)
    with pytest.raises(ValueError, match="malformed grammar"):
        compile_grammar(ir.Grammar(broken, rules.start), byte_vocabulary())


def test_numbers_out_of_range_are_refused_or_another_grammar() -> None:
    rules = _rules()
    numbers = len(rules.packed) // 4
    refused = 0
    for seed in range(300):
        rng = random.Random(seed)
        packed = bytearray(rules.packed)
        struct.pack_into("i", packed, 4 * rng.randrange(numbers), rng.choice([-5, 10_000, -(2**31)]))
        broken = PackedRules(bytes(packed), rules.leaves, rules.names)
        try:
            compile_grammar(ir.Grammar(broken, rules.start), byte_vocabulary())
        except (ValueError, TypeError):
            refused += 1
    assert refused > 150
