"""Schemas that combine others: alternatives that overlap, conditions, counted members and items."""

from __future__ import annotations

from typing import Any

from constrained.bench.hostile.case import TOO_LARGE, UNSATISFIABLE, UNSUPPORTED, schema


def _letters(number: int) -> str:
    return chr(ord("a") + number)


schema(
    "anyOf of 2,000 objects",
    lambda: {
        "anyOf": [
            {"type": "object", "properties": {"kind": {"const": f"k{i}"}, "n": {"type": "integer"}}}
            | {"required": ["kind"], "additionalProperties": False}
            for i in range(2_000)
        ]
    },
    accepted=({"kind": "k1999", "n": 1},),
    rejected=({"kind": "k2000"}, {"n": 1}),
)
schema(
    "anyOf of 500 objects that overlap",
    lambda: {
        "anyOf": [
            {"type": "object", "properties": {f"p{i}": {"type": "null"}}, "required": [f"p{i}"]}
            for i in range(500)
        ]
    },
    accepted=({"p7": None},),
    rejected=({},),
)
schema(
    "oneOf of 40 objects that overlap",
    lambda: {
        "oneOf": [
            {"type": "object", "properties": {f"p{i}": {"type": "null"}}, "required": [f"p{i}"]}
            for i in range(40)
        ]
    },
    accepted=({"p7": None}, {"p7": None, "p8": 1}),
    rejected=({}, {"p7": None, "p8": None}),
)
schema(
    "oneOf of 40, each anyOf of 40 objects that overlap",
    lambda: {
        "oneOf": [
            {"anyOf": [{"properties": {f"p{i}": {"minimum": j}}, "required": [f"p{i}"]} for j in range(40)]}
            for i in range(40)
        ]
    },
    TOO_LARGE,
)
schema(
    "oneOf of 20 lists of 500 objects",
    lambda: {"oneOf": [{"enum": [{"kind": kind, "n": n} for n in range(500)]} for kind in range(20)]},
    accepted=({"kind": 19, "n": 499},),
    rejected=({"kind": 20, "n": 0},),
)
schema(
    "oneOf of 10 strings that overlap",
    lambda: {"oneOf": [{"type": "string", "pattern": _letters(i)} for i in range(10)]},
    accepted=("a", "xjx"),
    rejected=("ab", "x"),
)
schema(
    "allOf of 14 anyOf of 2",
    lambda: {
        "allOf": [
            {"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}], "type": "object"} for i in range(14)
        ]
    },
    TOO_LARGE,
)
schema(
    "if, then and else, 12 of them",
    lambda: {
        "type": "object",
        "properties": {f"p{i}": {"type": "boolean"} for i in range(12)},
        "allOf": [
            {
                "if": {"properties": {f"p{i}": {"const": True}}, "required": [f"p{i}"]},
                "then": {"required": [f"q{i}"]},
                "else": {"required": [f"r{i}"]},
            }
            for i in range(12)
        ],
    },
    TOO_LARGE,
)
schema(
    "12 dependentSchemas",
    lambda: {
        "type": "object",
        "dependentSchemas": {f"p{i}": {"required": [f"q{i}"]} for i in range(12)},
        "properties": {f"p{i}": {"type": "null"} for i in range(12)},
    },
    accepted=({}, {"p1": None, "q1": 0}),
    rejected=({"p1": None},),
)
schema(
    "40 members that 12 kinds allow",
    lambda: {
        "type": "object",
        "properties": {"kind": {"enum": [f"k{i}" for i in range(12)]}},
        "dependentSchemas": {
            f"p{i}": {"properties": {"kind": {"enum": [f"k{i % 12}", f"k{i % 7}"]}}} for i in range(40)
        },
    },
    accepted=({}, {"kind": "k3", "p3": 1, "p10": 2}, {"p1": 1, "p2": 1}),
    rejected=({"kind": "k3", "p4": 1}, {"kind": "k12"}),
)
schema(
    "unevaluatedProperties beside anyOf of 8",
    lambda: {
        "type": "object",
        "anyOf": [{"properties": {f"p{i}": {"type": "null"}}, "required": [f"p{i}"]} for i in range(8)],
        "unevaluatedProperties": False,
    },
    accepted=({"p0": None, "p1": None},),
    rejected=({"p0": None, "x": 1}, {}),
)
schema(
    "unevaluatedItems beside anyOf of 8",
    lambda: {
        "type": "array",
        "anyOf": [{"prefixItems": [{"const": i}] * (i + 1)} for i in range(8)],
        "unevaluatedItems": False,
    },
    accepted=([], [1, 1]),
    rejected=([8], [1, 1, 1]),
)
schema(
    "a tree by $dynamicRef",
    {
        "$id": "https://example.com/strict",
        "$ref": "tree",
        "$dynamicAnchor": "node",
        "unevaluatedProperties": False,
        "$defs": {
            "tree": {
                "$id": "https://example.com/tree",
                "$dynamicAnchor": "node",
                "type": "object",
                "properties": {
                    "data": True,
                    "children": {"type": "array", "items": {"$dynamicRef": "#node"}},
                },
            }
        },
    },
    accepted=({"children": [{"data": 1}]},),
    rejected=({"children": [{"daat": 1}]},),
)
schema(
    "300 definitions that refer to each other",
    lambda: {
        "$ref": "#/$defs/d0",
        "$defs": {
            f"d{i}": {
                "type": "object",
                "properties": {f"p{j}": {"$ref": f"#/$defs/d{(7 * i + j) % 300}"} for j in range(4)},
                "additionalProperties": False,
            }
            for i in range(300)
        },
    },
    accepted=({"p1": {"p2": {}}},),
    rejected=({"p4": {}},),
)

# ---------------------------------------------------------------- members


schema(
    "minProperties 2",
    {"type": "object", "minProperties": 2},
    accepted=({"a": 1, "b": 2},),
    rejected=({"a": 1},),
)
schema("minProperties 200", {"type": "object", "minProperties": 200}, rejected=({"a": 1},))
schema(
    "minProperties 200 of 300",
    lambda: {
        "type": "object",
        "properties": {f"p{i}": {"type": "null"} for i in range(300)},
        "additionalProperties": False,
        "minProperties": 200,
    },
    accepted=({f"p{i}": None for i in range(200)},),
    rejected=({f"p{i}": None for i in range(199)},),
)
schema(
    "300 optional properties of any value",
    lambda: {"type": "object", "properties": {f"p{i}": True for i in range(300)}},
    accepted=({"p7": [1], "other": {}},),
)
schema(
    "names of the format uri",
    {"type": "object", "propertyNames": {"format": "uri"}},
    accepted=({"urn:a": 1},),
    rejected=({"a": 1},),
)

# ---------------------------------------------------------------- items


def _item(number: int) -> Any:
    return {"type": "object", "properties": {"id": {"const": number}}, "required": ["id"]}


schema("minItems 100,000", {"type": "array", "minItems": 100_000}, rejected=([1],))
schema(
    "contains 5 of 8",
    lambda: {"type": "array", "maxItems": 8, "allOf": [{"contains": {"const": i}} for i in range(5)]},
    accepted=([0, 1, 2, 3, 4], [4, 3, 2, 1, 0, "a", "b", "c"]),
    rejected=([0, 1, 2, 3], [0, 1, 2, 3, 5, 6, 7, 8]),
)
schema(
    "contains, 50 times",
    {"type": "array", "contains": {"type": "integer"}, "minContains": 50},
    accepted=([*range(50)],),
    rejected=([*range(49)],),
)
schema(
    "200 different strings",
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 200},
    accepted=([str(i) for i in range(200)],),
    rejected=(["a"], ["a"] * 200),
)
schema(
    "different values of an enum of 200",
    lambda: {"type": "array", "items": {"enum": [f"v{i}" for i in range(200)]}, "uniqueItems": True},
    accepted=(["v1", "v2"],),
    rejected=(["v1", "v1"],),
)
schema(
    "a list of the format idn-hostname",
    {"type": "array", "items": {"type": "string", "format": "idn-hostname"}},
    accepted=(["a.example"],),
    rejected=(["a b"],),
)
schema("two equal items", {"type": "array", "not": {"uniqueItems": True}}, UNSUPPORTED)
schema(
    "as many different objects as there are counts for",
    {"type": "array", "items": {"type": "object"}, "uniqueItems": True, "minItems": 10_000},
    UNSUPPORTED,
)
schema(
    "3 different booleans",
    {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3},
    UNSATISFIABLE,
)
