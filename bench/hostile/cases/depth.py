"""Constraints that are nested deeply."""

from __future__ import annotations

import json
from typing import Any

from constrained.bench.hostile.case import INVALID, TOO_LARGE, WALKED, case, nested, schema
from constrained.constraint import json_schema


def _arrays(depth: int) -> Any:
    return nested(
        depth, lambda inner: {"type": "array", "items": inner, "minItems": 1, "maxItems": 2}, {"const": 0}
    )


def _objects(depth: int) -> Any:
    return nested(
        depth,
        lambda inner: {
            "type": "object",
            "properties": {"a": inner},
            "required": ["a"],
            "additionalProperties": False,
        },
        {"const": 0},
    )


def _text(depth: int, open_: str, close: str, inner: str) -> str:
    return open_ * depth + inner + close * depth


_ARRAY_TEXT = ('{"type":"array","items":', "}")
_DEEP_ARRAY = (b"[" * 500 + b"0" + b"]" * 500,)

schema(
    "arrays 200 deep",
    lambda: _arrays(200),
    accepted=(nested(200, lambda v: [v], 0),),
    rejected=(nested(199, lambda v: [v], 0),),
)
schema(
    "arrays 500 deep",
    lambda: _arrays(500),
    accepted=(nested(500, lambda v: [v], 0),),
    rejected=(nested(499, lambda v: [v], 0),),
)
case(
    "arrays 500 deep as text",
    lambda: json_schema(json.dumps(_arrays(500))),
    WALKED,
    _DEEP_ARRAY,
    (_DEEP_ARRAY[0][1:],),
)
schema("objects 500 deep", lambda: _objects(500), INVALID)
schema("arrays 5,000 deep", lambda: _arrays(5_000), INVALID)
schema("objects 5,000 deep", lambda: _objects(5_000), INVALID)
case("arrays 5,000 deep as text", lambda: json_schema(_text(5_000, *_ARRAY_TEXT, "true")), INVALID)
case("arrays 100,000 deep as text", lambda: json_schema(_text(100_000, *_ARRAY_TEXT, "true")), INVALID)
case(
    "a const 100,000 deep as text",
    lambda: json_schema('{"const":' + _text(100_000, "[", "]", "") + "}"),
    INVALID,
)
schema(
    "a const 500 deep",
    lambda: {"const": nested(500, lambda v: [v], 0)},
    accepted=(nested(500, lambda v: [v], 0),),
    rejected=(nested(499, lambda v: [v], 0),),
)
schema(
    "not 300 deep",
    lambda: nested(300, lambda inner: {"not": inner}, {"type": "null"}),
    accepted=(None,),
    rejected=(0, "", []),
)
schema(
    "anyOf 100 deep",
    lambda: nested(100, lambda inner: {"anyOf": [inner, {"type": "null"}]}, {"type": "array", "maxItems": 1}),
    accepted=(None, []),
)
schema(
    "allOf 100 deep",
    lambda: nested(100, lambda inner: {"allOf": [inner, {"maximum": 9}]}, {"type": "integer"}),
    accepted=(9, -3),
    rejected=(10, "a"),
)
schema(
    "oneOf nested 12 levels, each twice",
    lambda: nested(
        12,
        lambda inner: {"oneOf": [inner, {"type": "array", "items": inner, "maxItems": 1}]},
        {"type": "null"},
    ),
    TOO_LARGE,
)
schema(
    "oneOf nested 14 levels, told apart",
    lambda: nested(
        14,
        lambda inner: {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"a": inner},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                {"type": "string"},
            ]
        },
        {"type": "null"},
    ),
    accepted=("a", {"a": "b"}),
    rejected=(None, {"a": None}),
)
case("a schema that holds itself", lambda: json_schema(_circle()), INVALID)


def _circle() -> Any:
    outer: dict[str, Any] = {"type": "array"}
    outer["items"] = outer
    return outer
