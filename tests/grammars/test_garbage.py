"""Lowering leaves no cycles of objects, so that no collection of the garbage collector falls into the next mask."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from constrained.grammars.json_schema import SchemaOptions, lower_schema

_TREE = {
    "$id": "https://example.org/tree",
    "type": "object",
    "properties": {"below": {"type": "array", "items": {"$ref": "#"}}},
}
_CONJOINED = {
    "oneOf": [
        {"properties": {"a": _TREE}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]},
    ],
    "properties": {"c": {"not": _TREE}},
}
_LARGE = {
    "type": "object",
    "properties": {
        "items": {"uniqueItems": True},  # compared, so the native walk leaves it alone
        "first": {"allOf": [{"minProperties": 1}, {"not": {"required": ["x"]}}]},
        **{f"{i}": {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"minimum": i}}} for i in range(80)},
    },
}  # fmt: skip


@pytest.mark.ci
@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"properties": {"a": {"enum": [1, "x"]}, "b": {"type": "number", "multipleOf": 0.5}}}, {}),
        (_CONJOINED, {}),
        (_CONJOINED, {"property_order": "any"}),
        (_CONJOINED, {"strict": True}),
        ({"uniqueItems": True, "items": {"properties": {"a": {"type": "integer"}}}}, {}),
        (_LARGE, {}),
    ],
    ids=["plain", "conjoined", "any order", "strict", "distinct names", "large"],
)
def test_lowering_leaves_nothing_to_the_collector(schema: dict[str, Any], options: dict[str, Any]) -> None:
    """Objects that die by their reference counts need no collection, which would be part of the next mask."""
    list(
        lower_schema(schema, SchemaOptions(**options)).grammar.rules.items()
    )  # imports, and fills caches that stay
    gc.collect()
    gc.freeze()  # what is there stays: collections then go through the new objects only
    gc.disable()
    try:
        lowered = lower_schema(schema, SchemaOptions(**options))
        assert gc.collect() == 0
        entries = lowered.report.entries
        gc.collect()
        assert entries == lowered.report.entries
        gc.collect()
        assert len(lowered.grammar.rules) > 0
        del lowered
        assert gc.collect() == 0
    finally:
        gc.enable()
