"""Many conditions on the value of one member: `jsonschema` judges each of all small objects, in two orders."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from constrained.automaton import compile_grammar
from constrained.grammars.errors import ConstraintTooLarge, UnsatisfiableConstraint
from constrained.grammars.json_schema import PropertyOrder, SchemaOptions, lower_schema
from constrained.grammars.json_schema.resolve import expand
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from tests.grammars.json_schema.official_suite import VOCABULARY
from tests.support.examples import examples
from tests.support.reading import accepts

KINDS = ["point", "line", 1, True, None]
NAMES = ["a", "b", "c"]


def condition(rng: random.Random, name: str) -> dict[str, Any]:
    """One condition that has to do with the kind."""
    some = {"enum": rng.sample(KINDS, rng.randrange(1, 4))}
    one = {"const": rng.choice(KINDS)}
    part = rng.choice([{"type": "string"}, {"const": 1}, False, True])
    return rng.choice(
        [
            {"dependentSchemas": {name: {"properties": {"kind": some}}}},
            {"dependentSchemas": {name: {"properties": {"kind": some}, "required": ["kind"]}}},
            {"dependentSchemas": {name: {"properties": {"kind": some, rng.choice(NAMES): part}}}},
            {"dependentSchemas": {name: {"properties": {"kind": {"type": "string", **some}}}}},
            {"dependentSchemas": {name: {"type": ["array", "null"], "properties": {"kind": some}}}},
            {"if": {"properties": {"kind": one}}, "then": {"properties": {name: part}}},
            {"if": {"properties": {"kind": one}}, "then": {"required": [name]}, "else": {"maxProperties": 3}},
            {"if": {"properties": {"kind": one}, "required": ["kind"]}, "then": {"properties": {name: part}}},
            {"anyOf": [{"properties": {name: False}}, {"required": [name], "properties": {"kind": some}}]},
            {"anyOf": [{"properties": {"kind": some}}, {"properties": {"kind": one}, "minProperties": 2}]},
            {"not": {"properties": {"kind": one, name: part}, "required": ["kind"]}},
        ]
    )


def schema_of(rng: random.Random, conditions: int) -> dict[str, Any]:
    """A schema with so many conditions on `kind`."""
    kinds = {"enum": rng.sample(KINDS, rng.randrange(2, len(KINDS) + 1))}
    made: dict[str, Any] = {
        "properties": {"kind": kinds, **{name: {"type": ["string", "integer"]} for name in NAMES}},
        "additionalProperties": False,
        "allOf": [condition(rng, rng.choice(NAMES)) for _ in range(conditions)],
    }
    if rng.random() < 0.7:
        made["type"] = rng.choice(["object", ["object", "null", "array"]])
    if rng.random() < 0.5:
        made["required"] = ["kind"]
    return made


def values(order: PropertyOrder) -> list[Any]:
    """Values of other types, and objects with few members; in the order of the schema, or the kind last as well."""
    found: list[Any] = [None, 3, [], "point"]
    for kind in (*KINDS, "other", "nothing"):
        tag = {} if kind == "nothing" else {"kind": kind}
        for size in range(len(NAMES) + 1):
            for names in itertools.combinations(NAMES, size):
                parts = {name: 1 if name == names[0] else "x" for name in names}
                found.append({**tag, **parts})
                found += [{**parts, **tag}] if order == "any" else []
    return found


def check(schema: Any) -> bool:
    """Whether the schema is taken; fails where the judge has another opinion of a value."""
    judge = Draft202012Validator(schema)
    for order in ("schema", "any"):
        try:
            automaton = compile_grammar(
                lower_schema(schema, SchemaOptions(property_order=order)).grammar, VOCABULARY
            )
        except ConstraintTooLarge:
            return False
        except UnsatisfiableConstraint:
            assert not any(judge.is_valid(value) for value in values(order)), schema
            continue
        for value in values(order):
            assert accepts(automaton, json.dumps(value)) == judge.is_valid(value), (schema, value)
    return True


def test_what_is_decided_by_the_member_is_what_all_combinations_are(monkeypatch: pytest.MonkeyPatch) -> None:
    combinations = DnfExpansion._combinations
    monkeypatch.setattr(
        DnfExpansion, "_combinations", lambda *args, by_member: combinations(*args, by_member=True)
    )
    monkeypatch.setattr(expand, "MANY_COMBINATIONS", 1)
    assert all(check(schema_of(random.Random(seed), 2 + seed % 3)) for seed in range(examples(120)))


def test_members_that_some_kinds_allow() -> None:
    kinds = [f"kind {i}" for i in range(12)]
    members = {f"m{i}": random.Random(i).sample(kinds, 1 + i % 4) for i in range(18)}
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": kinds}, **{name: {"type": "boolean"} for name in members}},
        "additionalProperties": False,
        "dependentSchemas": {
            name: {"properties": {"kind": {"enum": some}}} for name, some in members.items()
        },
    }
    judge = Draft202012Validator(schema)
    automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    for kind in (None, *kinds):
        allowed = [name for name, some in members.items() if kind is None or kind in some]
        for names in (allowed, allowed[1:], allowed[:1], [*members], [*members][:3], [*members][5:6]):
            value = {**({"kind": kind} if kind else {}), **dict.fromkeys(names, True)}
            assert accepts(automaton, json.dumps(value)) == judge.is_valid(value), value


def test_a_part_for_each_of_many_kinds_that_may_be_absent() -> None:
    kinds = [f"kind {i}" for i in range(23)]
    schema = {
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {kind: {"type": "integer"}, "all": {"maximum": i}}},
            }
            for i, kind in enumerate(kinds)
        ]
    }
    judge = Draft202012Validator(schema)
    automaton = compile_grammar(lower_schema(schema, SchemaOptions(property_order="any")).grammar, VOCABULARY)
    tags: list[dict[str, Any]] = [{}, {"kind": "other"}, {"kind": "kind 3"}, {"kind": "kind 22"}]
    parts: list[dict[str, Any]] = [
        {},
        {"all": 0},
        {"all": 5},
        {"kind 3": "x"},
        {"kind 3": 1, "all": 3},
        {"kind 22": "x"},
    ]
    for tag, part in itertools.product(tags, parts):
        assert accepts(automaton, json.dumps({**part, **tag})) == judge.is_valid({**part, **tag}), (part, tag)
    assert accepts(automaton, "[3]")
