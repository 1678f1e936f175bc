"""The native walk over plain schemas against the lowering that knows everything: the same rules, or none."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from constrained.grammars import ir
from constrained.grammars.errors import (
    ConstraintError,
    ConstraintTooLarge,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.grammars.json_schema import PropertyOrder, SchemaOptions, Whitespace, lower, lower_schema
from constrained.grammars.packed import PackedRules
from constrained.grammars.visit import children, fold, postorder
from tests.support.examples import examples
from tests.support.random_schemas import RandomSchemas

ORDERS: tuple[PropertyOrder, ...] = ("schema", "any")
WHITESPACE: tuple[Whitespace, ...] = ("bounded", "none", "any", "indent")
_DATA = os.environ.get("CONSTRAINED_DATA")

PLAIN: list[Any] = [
    True,
    {},
    {"title": "anything"},
    {"type": "null"},
    {"type": ["integer", "null"]},
    {"type": ["number", "boolean", "string"]},
    {"type": "object"},
    {"type": "array"},
    {"type": ["object", "array", "string"]},
    {"properties": {"a": True}},
    {"items": {"type": "string"}},
    {"type": "object", "properties": {"a/b": {"type": "object"}, "~": {"items": True}}, "required": ["~"]},
    {"type": "object", "properties": {"é": True, "b": {}}, "required": ["é", "x"], "additionalProperties": False}
    | {"additionalProperties": {"type": "integer"}},
    {"type": "object", "required": ["a", "b"], "properties": {"b": {"type": "string"}}},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "array", "items": {"type": "array", "maxItems": 0}, "minItems": 1, "maxItems": 3},
    {"type": ["object", "array"], "properties": {"a": True}, "items": {"$ref": "#"}, "minItems": 2},
    {"enum": ["a", "b", "é", "a"]},
    {"const": "x"},
    {"type": "string", "enum": ["a", "b"]},
    {"enum": [1, None, "x", [1, {"a": 2}]]},
    {"type": ["string", "null"], "enum": ["a", None]},
    {"type": "string", "minLength": 2, "maxLength": 5},
    {"type": "string", "format": "date-time"},
    {"type": "string", "pattern": "^a+$"},
    {"type": ["string", "integer"], "minimum": 3, "pattern": "b"},
    {"type": "integer", "minimum": -3, "maximum": 12, "format": "int32"},
    {"type": "number", "multipleOf": 0.5},
    {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "x": {"$ref": "#/$defs/a~1b"}, "y": {"$ref": "#/$defs/again"}},
        "$defs": {"a/b": {"type": "object", "properties": {"z": {"$ref": "#/$defs/s"}}}, "s": {"type": "boolean"}}
        | {"again": {"$ref": "#/$defs/a~1b"}},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.org/root",
        "properties": {"a": {"$ref": "#/definitions/x", "type": "ignored here"}},
        "definitions": {"x": {"type": "array", "items": {"type": "number"}}},
    }
    | {"properties": {"a": {"$ref": "#/definitions/x", "minLength": 1}}},
    {"type": "object", "properties": {"a": {"$id": "b", "type": "string"}, "c": {"$id": "http://e.org/d", "items": {}}}},
    {"type": "string", "properties": {"a": {"type": "integer"}}, "minItems": 2},
    {"type": ["integer", "string"], "required": ["a"], "minimum": 4, "items": {"type": "string"}},
    {"type": "object", "items": {"type": "string"}, "properties": {"a": True}, "uniqueItems": True},
    {"type": "array", "items": {"type": "string"}, "required": ["a"], "additionalProperties": False},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"anyOf": [{"type": "object"}]},
    {"anyOf": [True, {"type": "string"}, {}, {"title": "anything"}]},
    {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"$ref": "#"}}, {"enum": ["a", 2]}], "title": "t"},
    {"anyOf": [{"type": "string", "minLength": i} for i in range(12)]},
    {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "object"}}
    | {"b": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/a"}, {"anyOf": [{"type": "integer"}]}]}}},
    {"properties": {"a": {"anyOf": [{"properties": {"b": {"$ref": "#"}}, "required": ["b"]}, {"type": "null"}]}}},
    {"properties": {"a": {"anyOf": [{"type": "object"}, {"type": "array"}]}}, "required": ["a"]},
    {"allOf": [{"type": "string", "maxLength": 4}]},
    {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"type": "object", "properties": {"x": {}}}]}}},
    {"oneOf": [{"type": "string"}, {"type": ["integer", "null"]}, {"type": "object", "properties": {"a": True}}]},
    {"oneOf": [{"enum": ["a", "b"]}, {"const": "c"}, {"enum": []}]} | {"oneOf": [{"enum": ["a", "b"]}, {"const": "c"}]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": c}, "v": {"type": t}}, "required": ["k"]}
               for c, t in (("x", "string"), ("y", "integer"), ("z", "null"))]},
    {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
        "a": {"type": "object", "properties": {"k": {"enum": ["a"]}}, "required": ["k"]},
        "b": {"type": "object", "properties": {"k": {"enum": ["b", "c"]}, "next": {"$ref": "#"}}}}},
    {"oneOf": [{"anyOf": [{"type": "string"}]}]},
    {"oneOf": [{"type": "object", "properties": {k: {"type": "string"}}, "required": [k], "additionalProperties": False}
               for k in "abc"]},
    {"oneOf": [{"type": "object", "properties": {"k": {"type": t}}, "required": ["k"]} for t in ("string", "integer")]},
    {"type": ["object", "string"], "minLength": 2},
    {"minLength": 2, "minimum": 3},
    {"format": "a name that nobody knows", "properties": {"a": {"pattern": "^a"}}},
    {"properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/c"}}, "$defs": {
        "a": {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/c"}, "y": {"$ref": "#/$defs/b"}}},
        "b": {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/c"}}}, "c": {"type": "object"}}},
    {"oneOf": [{"enum": ["a", 1]}, {"enum": ["b"]}]},
    {"oneOf": [{"anyOf": [{"type": "string"}]}, {"type": "null"}]},
    {"oneOf": [{"type": "string", "pattern": "^a+$"}, {"enum": ["b"]}, {"type": "string", "pattern": "^a+$", "maxLength": 0}]},
    {"properties": {"a": {"type": "object", "enum": ["x"]}, "b": {"anyOf": [{"type": "null"}, {"type": "object", "enum": ["x"]}]}}},
    {"type": "object", "anyOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}, {"type": ["object", "null"]}]},
    {"type": ["object", "string"], "anyOf": [{"type": ["string", "null"]}, {"$ref": "#/$defs/a"}, {"type": "array"}],
     "$defs": {"a": {"properties": {"x": {"type": "array", "items": {"$ref": "#"}}}}}},
    {"type": "object", "oneOf": [{"properties": {"k": {"const": c}}, "required": ["k"]} for c in "xy"]},
    {"type": "array", "oneOf": [{"type": "array", "items": {"type": "string"}}, {"type": ["object", "null"]}]},
    {"type": "object", "properties": {"a": False}},
    {"properties": {"a": False, "b": {"type": "string"}}, "required": ["b"], "additionalProperties": {"type": "integer"}},
    {"type": "object", "patternProperties": {"a": True}},
    {"type": "object", "patternProperties": {"^a+$": {"type": "string"}, "^b/~": {"items": {"$ref": "#"}}, "^c": False},
     "properties": {"x": {"type": "null"}, "cc": {"type": "integer"}}, "required": ["x", "aa", "y"]} | {"properties": {"x": {}}},
    {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False, "required": ["ab"]},
    {"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": {"type": "integer"}, "maxProperties": 3},
    {"type": "object", "minProperties": 1},
    {"type": "object", "minProperties": 1, "additionalProperties": {"type": "array"}, "maxProperties": 4},
    {"type": "object", "properties": {"a": {"type": "array"}, "b": True, "c": True}, "minProperties": 2, "required": ["b"]},
    {"type": "object", "properties": {"a": True, "b": True}, "minProperties": 1, "maxProperties": 1} | {
        "additionalProperties": False},
    {"type": "object", "properties": {"a": True, "b": True}, "maxProperties": 2, "additionalProperties": False},
    {"type": "object", "properties": {"a": True, "b": True}, "required": ["a"], "minProperties": 1, "maxProperties": 1},
    {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": {"type": "string"}, "additionalItems": False},
    {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"additionalItems": False}}},
    {"oneOf": [{"type": "object", "properties": {k: {"type": "string"}}, "required": [k], "patternProperties": {"^x-": {}},
                "additionalProperties": False} for k in "ab"][:1]},
]  # fmt: skip

NOT_PLAIN: list[Any] = [
    {"type": "object", "minProperties": 2, "properties": {"a": True}},
    {"type": "object", "minProperties": 1, "patternProperties": {"a": True}},
    {"type": "object", "properties": {"a": True}, "patternProperties": {"a": {"type": "string"}}},
    {
        "type": "object",
        "patternProperties": {"a": {"type": "string"}, "b": {"type": "string", "minLength": 1}},
    },
    {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
    {"type": "array", "prefixItems": [True]},
    {"properties": {"a": {"$id": "b", "$schema": "http://json-schema.org/draft-04/schema#"}}},
    {"properties": {"a": {"$id": "http://[", "type": "string"}}} | {"properties": {"a": {"$id": "é"}}},
    {"anyOf": [{"type": "string"}], "type": ["string", "null"]},
    {"anyOf": [{"type": "string"}, False]},
    {"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]},
    {"allOf": [{"type": "string"}, {"maxLength": 3}]},
    {"oneOf": [{"type": "string"}, {"type": ["string", "null"]}]},
    {"oneOf": [{"type": "integer"}, {}]},
    {"oneOf": [{"type": "array"}, {"type": "array", "minItems": 1}]},
    {"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": c}}, "required": ["k"]} for c in "xyx"]},
    {"oneOf": [{"type": "object", "properties": {"k": {"const": c}}} for c in "xy"]},
    {"oneOf": [{"type": "object", "properties": {k: {"type": "string"}}, "required": [k]} for k in "ab"]},
    {
        "oneOf": [
            {
                "type": "object",
                "properties": {k: {"type": "string"}},
                "required": [k],
                "patternProperties": {"^.$": {}},
                "additionalProperties": False,
            }
            for k in "ab"
        ]
    },
    {
        "oneOf": [
            {"type": "object", "properties": {k: {"type": "string"}}, "additionalProperties": False}
            for k in "ab"
        ]
    },
    {
        "oneOf": [
            {"type": "object", "properties": {"k": {"type": t}}, "required": ["k"]}
            for t in ("number", "integer")
        ]
    },
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"oneOf": [{"properties": {"k": {"const": c}}, "required": ["k"]} for c in "xy"]},
    {"type": "object", "required": ["k"], "oneOf": [{"properties": {"k": {"const": c}}} for c in "xy"]},
    {"type": "string", "anyOf": [{"minLength": 2}, {"enum": ["x"]}]},
    {"type": ["string", "object"], "anyOf": [{"minLength": 2}, {"properties": {"a": True}}]},
    {"enum": ["a"], "properties": {}},
    {"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}},
    {"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {"maxLength": 3}}},
    {"type": "string", "not": {"const": "x"}},
    {"format": "a name that nobody knows"},
    {"minLength": 2, "minItems": 0},
]
"""Right schemas that have a part which is left to the general lowering."""

IDENTIFIED = {
    "properties": {"a": {"$id": "b", "type": "string"}, "c": {"$ref": "#/$defs/d"}},
    "$defs": {"d": {}},
}
"""The walk does not know where its reference starts."""

WRONG: list[Any] = [
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    {"$ref": "#"},
    {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
    {"allOf": [{"$ref": "#"}]},
    {"oneOf": [{"$ref": "#/$defs/a"}] * 2, "$defs": {"a": {"type": "string"}}},
    {
        "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/b"}]}},
        "required": ["a"],
        "type": "object",
    }
    | {"$defs": {"b": {"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"}}},
    {"oneOf": [{"type": "string", "pattern": "("}, {"type": "null"}]},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    {"type": "string", "minLength": 5, "maxLength": 2},
    {"type": "string", "pattern": "("},
    {"type": "array", "minItems": 3, "maxItems": 2},
    {"type": "object", "required": ["a"], "additionalProperties": False},
    {"type": "integer", "enum": ["a"]},
    {"type": "object", "properties": {"a": False}, "required": ["a"]},
    {"type": "object", "patternProperties": {"(": True}},
    {"type": "object", "patternProperties": {"^a": False}, "required": ["ab"]},
    {"type": "object", "minProperties": 3, "maxProperties": 2},
    {"type": "object", "minProperties": 2, "properties": {"a": True}, "additionalProperties": False},
    {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#"}},
    {"type": "array", "items": {"$dynamicRef": 5}},
    {"$ref": "#/elsewhere", "elsewhere": {"minLength": None}},
    {"type": "object", "properties": {"a": {"$ref": "#/const/0"}}, "const": [{"not": {"pattern": []}}]},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#n",
        "$defs": {"x": {"$id": "#n", "maxItems": "x"}},
    },
    {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": {}},
]


Numbers = dict[tuple[Any, ...], int]


def reached(grammar: ir.Grammar) -> list[str]:
    """The rules that the start rule calls, directly or not."""
    names = {grammar.start: None}
    for name in (pending := [grammar.start]):
        parts: dict[ir.Expr, None] = {}
        fold(grammar.rules[name], children, lambda part, known: None, parts)
        called = [part.rule for part in parts if isinstance(part, ir.Call) and part.rule not in names]
        names.update(dict.fromkeys(called))
        pending += dict.fromkeys(called)
    return sorted(names)


def shape(grammar: ir.Grammar, numbers: Numbers, names: list[str]) -> list[Any]:
    """Rules of a grammar, each as the number of its content in `numbers`."""
    known: dict[int, Any] = {}

    def of(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(of, part))
        if not isinstance(part, (ir.Expr, ir.Regex, ir.InterleaveEntry)):
            return type(part).__name__, part
        if id(part) not in known:
            content = type(part).__name__, *(of(getattr(part, name)) for name in type(part).__slots__)
            known[id(part)] = "part", numbers.setdefault(content, len(numbers))
        return known[id(part)]

    return [grammar.start, *((name, of(grammar.rules[name])) for name in names)]


def same(walked: ir.Grammar, general: ir.Grammar) -> bool:
    """Whether two grammars have equal rules, node by node, in the same order; where the walk has handed something over, those that
    the start reaches.
    """
    assert isinstance(walked.rules, PackedRules)
    names = [reached(one) if walked.rules.linked else list(one.rules) for one in (walked, general)]
    numbers: Numbers = {}
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # the members of an object are nested
    try:
        return shape(walked, numbers, names[0]) == shape(general, numbers, names[1])
    finally:
        sys.setrecursionlimit(limit)


def compares_items(grammar: ir.Grammar) -> bool:
    """Whether items of some array are compared as they are written."""
    return any(isinstance(part, ir.Mark) for expr in grammar.rules.values() for part in postorder(expr))


def both(schema: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, Any]:
    """The grammar of the walk (or None), and that of the general lowering (or its error)."""
    walked: list[ir.Grammar | None] = []
    walk = lower.lower_plain

    def refuse(*args: Any, **options: Any) -> None:
        walked.append(walk(*args, **options))

    monkeypatch.setattr(lower, "lower_plain", refuse)
    monkeypatch.setattr(lower, "_SHARED_FROM", 2**60)  # each place by itself
    try:
        general: Any = lower_schema(schema, SchemaOptions(**options)).grammar
    except (ConstraintError, ConstraintTooLarge) as error:
        general = error
    monkeypatch.undo()
    return walked[-1] if walked else None, general


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("max_digits", [None, 24])
@pytest.mark.parametrize("schema", PLAIN, ids=json.dumps)
def test_the_same_rules(
    schema: Any, order: PropertyOrder, max_digits: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked, general = both(schema, monkeypatch, property_order=order, max_digits=max_digits)
    assert walked is not None
    assert same(walked, general)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("schema", NOT_PLAIN, ids=json.dumps)
def test_the_rest_is_handed_over(schema: Any, order: PropertyOrder, monkeypatch: pytest.MonkeyPatch) -> None:
    walked, general = both(schema, monkeypatch, property_order=order)
    assert walked is not None
    assert walked.rules.linked or order == "any"  # there some are plain
    assert same(walked, general)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("schema", NOT_PLAIN, ids=json.dumps)
def test_what_is_handed_over_may_stand_anywhere(
    schema: Any, order: PropertyOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": "array", "items": True}}}
    definitions = schema.get("$defs", {})
    part = {key: value for key, value in schema.items() if key != "$defs"}
    whole = {
        "type": "object",
        "properties": {
            "x": part,
            "y": {"type": "array", "items": part},
            "z": {"anyOf": [part, {"type": "null"}]},
        }
        | {"u": {"allOf": [part, plain]}, "v": plain, "w": {"not": part}},
        "required": ["v"],
        "additionalProperties": {"not": {"type": "object", "properties": {"a": {"const": 1}}}},
        "$defs": definitions,
    }
    walked, general = both(whole, monkeypatch, property_order=order)
    if walked is None:  # an error, or identifiers with references
        assert isinstance(general, Exception) or "$id" in json.dumps(schema)
        return
    assert walked.rules.linked
    assert same(walked, general)


def test_identifiers_with_references_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    walked, general = both(IDENTIFIED, monkeypatch)
    assert walked is None
    assert isinstance(general, ir.Grammar)


@pytest.mark.parametrize("order", ORDERS)
def test_no_name_comes_twice_where_items_are_compared(
    order: PropertyOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "uniqueItems": True},
            "b": {"anyOf": [{"type": "object"}], "minProperties": 1},
            "c": {"type": "object", "properties": {"d": True}, "minProperties": 3},
            "e": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
            "f": {"type": "object", "properties": {"g": True}, "additionalProperties": False},
        },
    }
    walked, general = both(schema, monkeypatch, property_order=order)
    assert walked is not None
    assert same(walked, general)
    assert compares_items(general)
    assert "#/properties/a/uniqueItems" in [entry.pointer for entry in lower_schema(schema).report]


LONE: Any = "\ud800"
"""A lone surrogate: JSON has it, UTF-8 has not."""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "dependentRequired": {LONE: ["a"]}},
        {"dependentSchemas": {f"é{LONE}": {"required": ["b"]}}},
        {"if": {"properties": {LONE: {"type": "object"}}}, "then": {"type": "object"}},
        {"oneOf": [{"properties": {LONE: {"const": i}}, "required": [LONE]} for i in range(2)], "type": "object"},
        {"properties": {LONE: {"not": {"type": "string"}}}, "minProperties": 1, "additionalProperties": False},
        {"properties": {"a": {"allOf": [{"properties": {LONE: {"items": {"minItems": 1}}}}, {"type": "object"}]}}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_names_without_utf_8_end_the_walk(
    schema: Any, order: PropertyOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked, general = both(schema, monkeypatch, property_order=order)
    assert isinstance(general, ir.Grammar)
    assert walked is None or same(walked, general)


@pytest.mark.parametrize("schema", WRONG, ids=json.dumps)
def test_errors_are_those_of_the_general_lowering(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    walked, general = both(schema, monkeypatch)
    assert walked is None
    assert isinstance(general, Exception)
    with pytest.raises(type(general)) as raised:
        lower_schema(schema)
    assert str(raised.value) == str(general)


@pytest.mark.parametrize(
    "draft", ["4", "7", "2020-12", *(pytest.param(draft, marks=pytest.mark.ci) for draft in ("6", "2019-09"))]
)
def test_random_schemas(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_ones = 0
    for seed in range(examples(400)):
        rng = random.Random(f"{draft} {seed}")
        schema = RandomSchemas(rng, draft).schema()
        order = ORDERS[seed % 2]
        walked, general = both(schema, monkeypatch, draft=draft, property_order=order)
        if walked is not None:
            plain_ones += 1
            assert isinstance(general, ir.Grammar), schema
            assert same(walked, general), schema
    assert plain_ones


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "options", [{"additional_properties_default": False}, {"formats": False}, {"contents": {}}], ids=str
)
def test_options_of_the_walk(
    options: dict[str, Any], order: PropertyOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for schema in (
        PLAIN + NOT_PLAIN + [{"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}]
    ):
        walked, general = both(schema, monkeypatch, property_order=order, **options)
        if walked is None:  # closed, it has no value
            assert isinstance(general, UnsatisfiableConstraint)
        else:
            assert same(walked, general), schema


@pytest.mark.parametrize("options", [{"strict": True}, {"excludes": ["x"]}, {"style": "qwen_xml"}], ids=str)
def test_options_that_the_walk_does_not_know(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}
    walked, general = both(schema, monkeypatch, **options)
    assert walked is None
    assert isinstance(general, ir.Grammar)


def test_the_report_is_complete() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "x": 1}}, "title": "t"}
    entries = [(entry.pointer, entry.keyword, entry.status) for entry in lower_schema(schema).report]
    assert ("#/properties/a/minLength", "minLength", "enforced") in entries
    assert ("#/properties/a/x", "x", "unknown") in entries
    assert ("#/title", "title", "annotation") in entries


def test_scalars_are_shared_between_schemas_but_not_between_drafts() -> None:
    def member(draft: str, **scalar: Any) -> ir.Expr:
        schema = {"type": "object", "properties": {"a": scalar}, "required": ["a"]}
        body = lower_schema(schema, SchemaOptions(draft=draft)).grammar.rules["#"]
        assert isinstance(body, ir.Sequence)
        member = body.parts[1]
        assert isinstance(member, ir.Sequence)
        return member.parts[1]

    assert member("7", type="string", format="date") is member("7", type="string", format="date")
    assert member("7", type="string", format="idn-email") is not member(
        "6", type="string", format="idn-email"
    )
    assert member("7", type="number", minimum=1) is not member("7", type="number", minimum=True + 1)


def test_what_cannot_be_enforced_is_never_shared_between_schemas() -> None:
    def member(letter: str) -> dict[str, Any]:
        return {"type": "string", "pattern": f"({letter})\\1"}

    for letters in ("xy", "y"):
        with pytest.raises(UnsupportedConstraint):
            lower_schema({"type": "object", "properties": {letter: member(letter) for letter in letters}})


def test_names_beyond_ascii_and_common_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = ["a", "b", '"', "/", "\\", "\n", "\x7f", "é", "😀", "~"]
    for seed in range(examples(300)):
        rng = random.Random(seed)
        used = letters if seed % 3 == 0 else letters[:7]
        names = {"".join(rng.choices(used, k=rng.randrange(4))) for _ in range(rng.randrange(1, 8))}
        schema = {
            "type": "object",
            "properties": {name: {"enum": [name, "x"]} for name in sorted(names)},
            "required": rng.sample(sorted(names), rng.randrange(len(names) + 1)),
        }
        walked, general = both(
            schema, monkeypatch, property_order=ORDERS[seed % 2], whitespace=WHITESPACE[seed % 4]
        )
        assert walked is not None
        assert same(walked, general), schema


def check_real_schemas(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares the two lowerings of each n-th schema of the development data."""
    plain_ones = 0
    with gzip.open(Path(_DATA or "") / "maskbench-dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % every != every - 1 or len(line) > 50_000:
                continue
            schema = json.loads(line)["schema"]
            order = ORDERS[number // every % 2]
            walked, general = both(schema, monkeypatch, property_order=order, max_digits=24)
            if walked is not None:
                plain_ones += 1
                assert same(walked, general)
    assert plain_ones > 1000 / every


@pytest.mark.skipif(not _DATA, reason="CONSTRAINED_DATA is not set")
def test_real_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    check_real_schemas(80, monkeypatch)


@pytest.mark.slow
@pytest.mark.skipif(not _DATA, reason="CONSTRAINED_DATA is not set")
def test_all_real_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    check_real_schemas(2, monkeypatch)
