"""Alternatives with a discriminator, as real schemas have them: `jsonschema` judges, and many of them stay cheap.

Branches overlap on purpose: optional tags, misspelt tags, members that repeat a condition in several
branches. What is broken by a branch that must not hold is then spread over several members, in any order.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained.automaton import Automaton
from constrained.grammars.errors import ConstraintTooLarge, UnsatisfiableConstraint
from constrained.grammars.json_schema import SCHEMA_DIALECTS, PropertyOrder, SchemaOptions, lower_schema
from constrained.grammars.json_schema.emit import objects
from constrained.grammars.json_schema.resolve.disjoint import EmptinessProver
from constrained.grammars.json_schema.resolve.expand import DnfExpansion
from constrained.grammars.json_schema.source.document import SchemaDocument
from tests.grammars.json_schema.official_suite import VOCABULARY, accepts, compile_grammar
from tests.support.examples import examples

ORDERS: tuple[PropertyOrder, ...] = ("any", "schema")
KINDS = ["point", "line", "area"]
parts = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "string"},
        {"const": 1},
        {"const": True},
        {"enum": ["x", "y"]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    ]
)
tags = st.one_of(
    st.sampled_from(KINDS).map(lambda kind: {"const": kind}),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True).map(lambda kinds: {"enum": kinds}),
    st.just({"type": "string"}),
)
branches = st.builds(
    lambda kind, members, required: {
        "type": "object",
        "properties": {"kind": kind, **members},
        "required": required,
    },
    tags,
    st.dictionaries(st.sampled_from(["at", "size"]), parts, max_size=2),
    st.lists(st.sampled_from(["kind", "at", "size"]), max_size=2, unique=True),
)
instances = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from([*KINDS, "other", 1]),
        "at": st.sampled_from([1, True, 2, "x", "z", [], [1], ["x"]]),
        "size": st.sampled_from([1, True, 2, "x", [1]]),
        "more": st.none(),
    },
).flatmap(lambda value: st.permutations(list(value.items())).map(dict))
schemas = st.one_of(
    st.builds(
        lambda keyword, some: {"type": "object", keyword: some},
        st.sampled_from(["oneOf", "anyOf"]),
        st.lists(branches, min_size=2, max_size=4),
    ),
    st.builds(
        lambda some: {"type": "object", "required": ["kind"], "allOf": some},
        st.lists(
            st.builds(lambda tag, then: {"if": {"properties": {"kind": tag}}, "then": then}, tags, branches),
            min_size=2,
            max_size=4,
        ),
    ),
    st.builds(
        lambda some: {"type": "object", "not": {"anyOf": some}}, st.lists(branches, min_size=1, max_size=3)
    ),
)


def as_it_stands(automaton: Automaton, instance: Any, whole: bool) -> bool:
    """Whether the text of an instance is one of the automaton's, with its members in this order."""
    text = json.dumps(instance).encode()
    states = automaton.walk(automaton.start, list(text))
    return len(states) == len(text) and automaton.accepts(states[-1])


def check(schema: Any, found: list[dict[str, Any]]) -> None:
    valid = Draft202012Validator(schema).is_valid
    for order in ORDERS:
        try:
            grammar = lower_schema(schema, SchemaOptions(property_order=order)).grammar
        except UnsatisfiableConstraint:
            assert not any(map(valid, found))
            return
        automaton = compile_grammar(grammar, VOCABULARY)
        for instance in found:
            taken = accepts if order == "schema" else as_it_stands
            assert taken(automaton, instance, whole=True) == valid(instance), (instance, order)


@given(schemas, st.lists(instances, min_size=6, max_size=6))
@example(
    {
        "type": "object",
        "oneOf": [{"properties": {"at": {"const": 1}}}, {"properties": {"at": {"const": True}}}],
    },
    [{"at": 1}, {"at": True}, {}, {"at": 2}],
)
@example(  # a list says less than it enumerates: only 1 is excluded, and 2 violates the third schema
    {
        "type": "object",
        "properties": {"at": {"type": "integer"}},
        "allOf": [
            {"not": {"properties": {"at": {"enum": [1, 2], "maximum": 1}}}},
            {"not": {"properties": {"at": {"enum": [1, 2]}, "size": {"const": 1}}}},
        ],
    },
    [{"at": 1}, {"at": 2}, {"at": 3}, {"at": 2, "size": 1}, {"at": 2, "size": 2}, {}],
)
@example(  # what one branch has in common with the others is not violated
    {
        "$defs": {"base": {"properties": {"size": {"type": "integer"}}}},
        "type": "object",
        "oneOf": [
            {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"kind": {"const": kind}}}]} for kind in KINDS
        ],
    },
    [{"kind": "line"}, {"kind": "line", "size": "x"}, {"size": 1}, {"kind": "other"}, {}],
)
@settings(max_examples=examples(60))
def test_tagged_alternatives_are_exact_in_any_order(schema: Any, found: list[dict[str, Any]]) -> None:
    check(schema, found)


@pytest.mark.slow
@given(schemas, st.lists(instances, min_size=15, max_size=15))
@settings(max_examples=examples(600))
def test_tagged_alternatives_are_exact_at_length(schema: Any, found: list[dict[str, Any]]) -> None:
    check(schema, found)


@pytest.mark.parametrize("order", ORDERS)
def test_forty_conditions_on_one_tag_are_forty_cases(order: PropertyOrder) -> None:
    kinds = [f"kind {i}" for i in range(40)]
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": kinds}},
        "required": ["kind"],
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {f"only {kind}": {"const": kind}}, "required": [f"only {kind}"]},
            }
            for kind in kinds
        ],
    }
    automaton = compile_grammar(lower_schema(schema, SchemaOptions(property_order=order)).grammar, VOCABULARY)
    assert accepts(automaton, {"kind": "kind 7", "only kind 7": "kind 7"}, whole=False)
    assert not accepts(automaton, {"kind": "kind 7", "only kind 8": "kind 8"}, whole=False)
    assert not accepts(automaton, {"kind": "kind 7"}, whole=False)


@pytest.mark.parametrize("nothing", [None, False, 0, "none"])
@pytest.mark.parametrize("order", ORDERS)
def test_one_of_many_members_with_a_value_is_a_case_for_each(order: PropertyOrder, nothing: Any) -> None:
    """A member of which only its absent value is known: what violates that is there, and has another value."""
    names = [f"way {i}" for i in range(11)]

    def others(name: str) -> Any:
        return {"properties": {other: {"const": nothing} for other in names if other != name}}

    schema = {
        "type": "object",
        "allOf": [
            {"if": {"not": {"properties": {name: {"const": nothing}}}}, "then": others(name)}
            for name in names
        ],
    }
    grammar = lower_schema(schema, SchemaOptions(property_order=order)).grammar
    assert len(grammar.rules) < 30
    automaton = compile_grammar(grammar, VOCABULARY)
    judge = Draft202012Validator(schema)
    for value in (
        {},
        {names[2]: [1]},
        {names[2]: [1], names[5]: nothing},
        {names[2]: [1], names[5]: 7},
        dict.fromkeys(names, nothing),
        {names[0]: nothing, names[10]: "x", "more": 1},
    ):
        assert accepts(automaton, value, whole=True) == judge.is_valid(value), value


def test_members_that_violate_a_branch_are_split_by_its_discriminator_only() -> None:
    """Six shapes and one whose tag is misspelt, so that it may be any of them: GeoJSON, as people publish it."""

    def shape(name: str, depth: int) -> Any:
        inner: Any = {"type": "integer"}
        for _ in range(depth):
            inner = {"type": "array", "items": inner}
        return {
            "type": "object",
            "properties": {"type": {"enum": [name]}, "coordinates": inner, "bbox": {"type": "array"}},
            "required": ["type", "coordinates"],
        }

    shapes = [shape(f"shape {i}", 1 + i % 3) for i in range(6)]
    misspelt = {
        "type": "object",
        "properties": {"type": {"type": "string", "emum": ["All"]}, "parts": {"items": {"oneOf": shapes}}},
        "required": ["type", "parts"],
    }
    schema = {"oneOf": [*shapes, misspelt]}
    grammar = lower_schema(schema, SchemaOptions(property_order="any")).grammar
    assert len(grammar.rules) < 200
    automaton = compile_grammar(grammar, VOCABULARY)
    valid = Draft202012Validator(schema).is_valid
    rng = random.Random(0)
    verdicts = set()
    for _ in range(60):
        one = {
            "type": rng.choice(["shape 0", "shape 2", "All"]),
            "coordinates": rng.choice([[], [1], [[[1]]], 1]),
        }
        whole = [*one.items(), ("parts", rng.choice([[], [one], [1]]))][: rng.choice([2, 3])]
        rng.shuffle(whole)
        instance = dict(whole)
        verdicts.add(valid(instance))
        assert as_it_stands(automaton, instance, whole=True) == valid(instance), instance
    assert verdicts == {True, False}


def test_too_many_objects_with_conditions_are_refused_at_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    overlapping = {"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 1}}}]}
    schema = {"type": "object", "properties": {f"p{i}": {"type": "object", **overlapping} for i in range(3)}}
    lower_schema(schema)
    monkeypatch.setattr(objects, "MAX_NEGATED_OBJECTS", 5)
    with pytest.raises(ConstraintTooLarge, match="more than 5 objects") as refusal:
        lower_schema(schema)
    assert "#/properties/p2" in refusal.value.problems[0].place


@pytest.mark.parametrize("order", ORDERS)
def test_keywords_beside_one_of_keep_its_branches_apart(order: PropertyOrder) -> None:
    """Without ``type`` and ``required`` beside them the branches have values in common, which nothing accepts then."""
    branches = [{"properties": {"kind": {"const": kind}, "n": {"type": "integer"}}} for kind in KINDS]
    schema = {"type": "object", "required": ["kind"], "oneOf": branches}
    apart, either = (
        lower_schema(one, SchemaOptions(property_order=order)).grammar
        for one in (schema, {**schema, "anyOf": branches, "oneOf": [True]})
    )
    assert len(apart.rules) == len(either.rules)
    automaton = compile_grammar(apart, VOCABULARY)
    judge = Draft202012Validator(schema)
    for kind in [*KINDS, "none"]:
        for value in ({"kind": kind, "n": 1}, {"kind": kind, "n": "x"}, {"n": 1}, 1):
            assert accepts(automaton, value, whole=True) == judge.is_valid(value)
    overlapping = compile_grammar(
        lower_schema({"oneOf": branches}, SchemaOptions(property_order=order)).grammar, VOCABULARY
    )
    for value in ({"kind": KINDS[0]}, {"n": 1}, 1, {"kind": "none"}):
        assert accepts(overlapping, value, whole=True) == Draft202012Validator({"oneOf": branches}).is_valid(
            value
        )


@pytest.mark.parametrize(
    ("one", "other", "surely"),
    [
        ({"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": 2}}}, True),
        ({"properties": {"a": {"const": 1}}}, {"type": "object", "minProperties": 1}, False),
        ({"type": "array", "items": {"const": 1}}, {"type": ["array", "null"], "items": False}, True),
        ({"type": "array", "contains": {"const": 1}}, {"type": "array", "items": {"const": 2}}, False),
        ({"not": {"required": ["a"]}}, {"properties": {"a": {"const": 2}}}, True),
        ({"not": {"properties": {"a": {"const": 1}}}}, {"type": "object"}, False),
    ],
)
def test_schemas_of_which_an_empty_value_satisfies_both_need_no_proof(
    one: Any, other: Any, surely: bool
) -> None:
    document = SchemaDocument({"oneOf": [one, other]}, SCHEMA_DIALECTS["2020-12"])
    prover = DnfExpansion(document, EmptinessProver).prover
    assert isinstance(prover, EmptinessProver)
    branches = [document.root.child("oneOf", i) for i in range(2)]
    assert not prover.are_disjoint(branches[0], branches[1]) or not surely
    assert (prover.steps == 0) == surely
