"""References in circles, in long rows, and by the power of two."""

from __future__ import annotations

from constrained.bench.hostile.case import INVALID, TOO_LARGE, UNSATISFIABLE, UNSUPPORTED, schema

_DEFS = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
schema(
    "allOf circle through $ref",
    {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"allOf": [{"$ref": "#/$defs/b"}, {"type": "object"}]},
            "b": {"allOf": [{"$ref": "#/$defs/a"}]},
        },
    },
    INVALID,
)
schema("a $ref to itself", {"$ref": "#"}, INVALID)
schema("two $refs to each other", {"$ref": "#/$defs/a", "$defs": _DEFS}, INVALID)
schema("anyOf with itself", {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, INVALID)
schema("a dangling $ref", {"$ref": "#/$defs/none"}, INVALID)
schema("a $ref of odd characters", {"$ref": "#/$defs/%ZZ~2\x00"}, INVALID)
schema("a $ref to the network", {"$ref": "http://localhost:1/x"}, UNSUPPORTED)
schema(
    "values that must contain themselves",
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    UNSATISFIABLE,
)
schema(
    "2^40 by references",
    lambda: {
        "$ref": "#/$defs/0",
        "$defs": {
            **{
                str(i): {"type": "array", "items": {"$ref": f"#/$defs/{i + 1}"}, "minItems": 2, "maxItems": 2}
                for i in range(40)
            },
            "40": {"type": "null"},
        },
    },
)
schema(
    "5,000 references in a row",
    lambda: {
        "$ref": "#/$defs/0",
        "$defs": {**{str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(5_000)}, "5000": {"type": "null"}},
    },
    accepted=(None,),
)
schema(
    "allOf of 2,000 references to one",
    {"allOf": [{"$ref": "#/$defs/a"}] * 2_000, "$defs": {"a": {"type": "null"}}},
    accepted=(None,),
)
schema(
    "anyOf under anyOf, 3^12 ways",
    lambda: {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {f"{i}{j}": {"type": "null"}}, "required": [f"{i}{j}"]} for j in range(3)
                ]
            }
            for i in range(12)
        ]
    },
    TOO_LARGE,
)
