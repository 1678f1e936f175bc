"""Constraints of many parts, and texts that are long."""

from __future__ import annotations

import json
from typing import Any

from constrained.bench.hostile.case import INVALID, TOO_LARGE, WALKED, case, schema
from constrained.constraint import json_schema


def _properties(count: int, required: bool) -> Any:
    names = [f"property{i}" for i in range(count)]
    return {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "additionalProperties": False,
        "required": names if required else [],
    }


schema(
    "5,000 optional properties",
    lambda: _properties(5_000, False),
    accepted=({}, {"property3": None, "property4999": None}),
    rejected=({"property5000": None}, {"property7": None, "property2": None}),
)
schema(
    "5,000 required properties",
    lambda: _properties(5_000, True),
    accepted=({f"property{i}": None for i in range(5_000)},),
    rejected=({},),
)
schema(
    "5,000 optional properties and others",
    lambda: {"type": "object", "properties": _properties(5_000, False)["properties"]},
    accepted=({"other": 1}, {"property3": None}),
    rejected=({"property3": 1},),
)
schema(
    "2,000 optional properties, 5 to 9 of them",
    lambda: {**_properties(2_000, False), "minProperties": 5, "maxProperties": 9},
    accepted=({f"property{i}": None for i in range(5)},),
    rejected=({"property1": None},),
)
schema(
    "an enum of 100,000 strings",
    lambda: {"enum": [f"value {i}" for i in range(100_000)]},
    accepted=("value 99999",),
    rejected=("value 100000",),
)
schema(
    "an enum of 100,000 numbers",
    lambda: {"enum": list(range(100_000))},
    accepted=(99_999,),
    rejected=(100_000,),
)
schema(
    "an enum of 20,000 objects",
    lambda: {"enum": [{"a": i, "b": [i]} for i in range(20_000)]},
    accepted=({"a": 7, "b": [7]},),
    rejected=({"a": 7, "b": [8]},),
)
schema(
    "a const of 1,000,000 characters",
    lambda: {"const": "x" * 1_000_000},
    accepted=("x" * 1_000_000,),
    rejected=("x" * 999_999,),
)
schema(
    "a key of 100,000 characters",
    lambda: {"type": "object", "properties": {"k" * 100_000: {"type": "null"}}, "required": ["k" * 100_000]},
)
schema("a const of every character", lambda: {"const": "".join(chr(c) for c in range(0x800) if c)})
case(
    "a schema of 1 MB",
    lambda: json_schema(json.dumps(_properties(25_000, False))),
    WALKED,
    (b'{"property77": null}',),
)
case(
    "1 MB of white space around a schema",
    lambda: json_schema(" " * 1_000_000 + '{"type": "null"}'),
    WALKED,
    (b"null",),
)
case("1 MB that is no JSON", lambda: json_schema("[" + "1," * 500_000), INVALID)
schema("1 MB of description", {"type": "null", "description": "x" * 1_000_000}, accepted=(None,))
schema(
    "patternProperties that overlap",
    {
        "type": "object",
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}, "c": {"maximum": 9}},
    },
    accepted=({"acb": 5, "z": None},),
    rejected=({"acb": 2}, {"acb": 10}, {"a": None}),
)
schema(
    "12 patternProperties that overlap",
    lambda: {"type": "object", "patternProperties": {chr(97 + i): {"minimum": i} for i in range(12)}},
    TOO_LARGE,
)
schema(
    "100 patternProperties that do not",
    lambda: {
        "type": "object",
        "patternProperties": {f"^k{i}_": {"const": i} for i in range(100)},
        "additionalProperties": False,
    },
    accepted=({"k7_x": 7, "k70_": 70},),
    rejected=({"k7_x": 70}, {"k100_": 100}),
)
schema(
    "dependentRequired in a circle",
    lambda: {"type": "object", "dependentRequired": {str(i): [str((i + 1) % 30)] for i in range(30)}},
    accepted=({}, {str(i): None for i in range(30)}),
    rejected=({"0": None}, {str(i): None for i in range(29)}),
)
schema(
    "an enum of 20,000 strings",
    lambda: {"enum": [f"value {i}" for i in range(20_000)]},
    accepted=("value 19999",),
    rejected=("value 20000",),
)
