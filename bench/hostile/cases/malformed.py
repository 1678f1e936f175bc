"""What is no JSON, or hardly."""

from __future__ import annotations

from constrained.bench.hostile.case import INVALID, UNSATISFIABLE, WALKED, case, schema
from constrained.constraint import json_schema

schema("a key that is no string", {"properties": {1: True}}, INVALID)
schema("NaN", {"minimum": float("nan")}, INVALID)
schema("infinity", {"const": float("inf")}, INVALID)
schema("bytes", {"const": b"a"}, INVALID)
case("NaN as text", lambda: json_schema('{"minimum": NaN}'), INVALID)
schema(
    "a lone surrogate in a const", {"const": "a\ud800"}, accepted=("a\ud800",)
)  # JSON can write it as \ud800
schema("a lone surrogate in a name", {"type": "object", "properties": {"\udfff": True}})
schema(
    "lone surrogates in names that depend on each other",
    {
        "type": "object",
        "dependentRequired": {"\udfff": ["a"]},
        "properties": {"\udfff": {"not": {"type": "null"}}},
    },
    accepted=({}, {"\udfff": 1, "a": 2}),
    rejected=({"\udfff": 1}, {"\udfff": None, "a": 2}),
)
schema("a lone surrogate in a pattern", {"type": "string", "pattern": "\ud83d"}, UNSATISFIABLE)
schema(
    "a lone surrogate in a description", {"type": "null", "description": "\ud83d"}, WALKED, accepted=(None,)
)
case("a lone surrogate as text", lambda: json_schema('{"const": "\\ud800"}'), WALKED)
schema("null characters", {"const": "a\0b", "title": "\0"}, accepted=("a\0b",))
case("bytes that are no UTF-8", lambda: json_schema(b'{"const": "\xff"}'), INVALID)
case("a key twice", lambda: json_schema('{"type": "null", "type": "string"}'), INVALID)
schema("a type of no name", {"type": "nothing"}, INVALID)
schema("types by the thousand", {"type": ["null", "string"] * 1_000}, INVALID)
schema("properties that are a list", {"properties": []}, INVALID)
schema("a $dynamicRef that is a number", {"items": {"$dynamicRef": 5}}, INVALID)
schema(
    "a malformed schema behind a reference",
    {"$ref": "#/elsewhere", "elsewhere": {"minLength": None}},
    INVALID,
)
schema("an enum of nothing", {"enum": []}, UNSATISFIABLE)
schema("false", False, UNSATISFIABLE)
