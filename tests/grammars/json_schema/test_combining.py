"""Keywords that combine schemas, in any combination: the automaton takes what `jsonschema` calls valid.

Small schemas and small instances over the same few keys and values, so that both verdicts come up; texts that the
automaton writes by itself are judged, too.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained.automaton import compile_grammar
from constrained.grammars.errors import ConstraintTooLarge, UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from tests.grammars.json_schema.official_suite import VOCABULARY, accepts
from tests.support.examples import examples
from tests.support.judge import ReferenceRecognizer

KEYS = ["a", "b", "ab"]
scalars = st.sampled_from([None, True, False, 0, 1, 2, 1.5, -1, "", "a", "ab", "b"])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=5,
)
leaves = st.sampled_from(
    [
        True,
        False,
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"type": "object"},
        {"type": "array"},
        {"const": 1},
        {"enum": ["a", 1, [1]]},
        {"minimum": 1},
        {"pattern": "^a"},
        {"maxLength": 1},
        {"required": ["a"]},
        {"required": ["a", "b"]},
        {"maxItems": 1},
        {"$ref": "#/$defs/x"},
    ]
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas with one to three keywords over smaller schemas."""
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("not", "contains", "items", "additionalProperties", "propertyNames"), inner),
        **dict.fromkeys(("if", "then", "else", "unevaluatedProperties", "unevaluatedItems"), inner),
        **dict.fromkeys(("oneOf", "anyOf", "allOf"), some),
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        "prefixItems": some,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, min_size=1, max_size=1),
        "required": st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True),
        "minContains": st.integers(0, 2),
        "maxContains": st.integers(0, 2),
    }
    names = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen}))


schemas = st.recursive(leaves, combined, max_leaves=6)


def check(schema: Any, definition: Any, instances: list[Any]) -> None:
    whole = {"allOf": [schema], "$defs": {"x": definition}}
    valid = Draft202012Validator(whole).is_valid
    try:
        verdicts = [valid(instance) for instance in instances]
    except RecursionError:
        assume(False)
    try:
        grammar = lower_schema(whole).grammar
    except UnsatisfiableConstraint:
        assert not any(verdicts)
        return
    except (UnsupportedConstraint, ConstraintTooLarge):
        return
    automaton = compile_grammar(grammar, VOCABULARY)
    for instance, verdict in zip(instances, verdicts, strict=True):
        assert accepts(automaton, instance, whole=True) == verdict, instance
    judge = ReferenceRecognizer(grammar)
    for seed in range(2):
        text = judge.sample(random.Random(seed))
        if b"." not in text and b"e" not in text.lower():  # `jsonschema` reads those in floating point
            assert valid(json.loads(text)), text


@given(schemas, st.one_of(st.just({"properties": {"a": {"$ref": "#/$defs/x"}}}), leaves), st.lists(values))
@example({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, True, [{}, {"a": 1}, {"a": 1, "b": 1}])
@example({"not": {"properties": {"a": {"$ref": "#/$defs/x"}}}}, {"type": "null"}, [{"a": 1}, {"a": None}, {}])
@settings(max_examples=examples(150))
def test_the_automaton_agrees_with_jsonschema(schema: Any, definition: Any, instances: list[Any]) -> None:
    assume(definition != {"$ref": "#/$defs/x"})  # a circle that says nothing
    check(schema, definition, instances)


@pytest.mark.slow
@given(schemas, leaves, st.lists(values, min_size=5, max_size=15))
@settings(max_examples=examples(3000))
def test_the_automaton_agrees_with_jsonschema_at_length(
    schema: Any, definition: Any, instances: list[Any]
) -> None:
    assume(definition != {"$ref": "#/$defs/x"})
    check(schema, definition, instances)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    "schema",
    [
        {"dependentRequired": {"b": ["a"], "c": ["a"], "d": ["a"]}},
        {"dependentRequired": {"a": ["d"], "b": ["a"], "c": ["a"], "d": ["d"]}},
        {"dependentRequired": {"b": ["a"], "c": ["a"], "d": ["b", "c"]}, "required": ["c"]},
        {"not": {"dependentRequired": {"b": ["a"], "c": ["a"]}}, "type": "object"},
        {"dependentRequired": {"b": ["a"], "c": ["a"]}, "properties": {"a": False}},
        {
            "dependentRequired": {"b": ["a"], "c": ["a"]},
            "properties": {"b": {}},
            "unevaluatedProperties": {"type": "null"},
        },
    ],
)
def test_keys_that_need_the_same_key(schema: dict[str, Any], order: Any) -> None:
    automaton = compile_grammar(lower_schema(schema, SchemaOptions(property_order=order)).grammar, VOCABULARY)
    verdicts = set()
    for value in (1, None):
        for chosen in range(16):
            instance = {name: value for bit, name in enumerate("abcd") if chosen >> bit & 1}
            valid = Draft202012Validator(schema).is_valid(instance)
            verdicts.add(valid)
            assert accepts(automaton, instance, True) == valid, instance
    assert verdicts == {True, False}


def test_keys_that_need_the_same_key_are_one_alternative() -> None:
    schema = {"dependentRequired": {f"m{i}": ["name"] for i in range(40)}}
    assert len(lower_schema(schema).grammar.rules) < 10
