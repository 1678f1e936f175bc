"""Schemas whose objects may leave out members, for documents that are read in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.grammars.json_schema.view import target_of

_OBJECT_COUNTS = ("required", "minProperties", "dependentRequired", "dependencies")
_ARRAY_COUNTS = ("minItems", "minContains", "contains")


def optional_members(schema: Any, names: Sequence[str] | None = None) -> Any:
    """A copy of a schema in which members of objects outside of arrays are optional, and arrays there may be shorter.

    Items of arrays keep what they require, and so do the alternatives of `oneOf` and `anyOf`, apart from `X | null`.

    Args:
        schema: a JSON Schema whose references are pointers, see `constrained.grammars.json_schema.view`.
        names: the members of the top-level object to keep; None: all.
    """
    relaxed = _relax(schema, schema, frozenset())
    if names is not None and isinstance(relaxed, Mapping) and isinstance(relaxed.get("properties"), Mapping):
        kept = {name: one for name, one in relaxed["properties"].items() if name in names}
        relaxed = {**relaxed, "properties": kept}
    if isinstance(relaxed, Mapping) and isinstance(schema, Mapping):
        relaxed = {
            **{key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema},
            **relaxed,
        }
    return relaxed


def _relax(schema: Any, root: Any, above: frozenset[str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    pointer = schema.get("$ref")
    if isinstance(pointer, str):
        target = target_of(root, pointer)
        if not isinstance(target, Mapping) or pointer == "#" or pointer in above:
            return dict(schema)
        beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions")}
        return {**_relax(target, root, above | {pointer}), **beside}
    changed = {key: value for key, value in schema.items() if key not in (*_OBJECT_COUNTS, *_ARRAY_COUNTS)}
    if isinstance(schema.get("properties"), Mapping):
        changed["properties"] = {
            name: _relax(member, root, above) for name, member in schema["properties"].items()
        }
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            real = [one for one in branches if one != {"type": "null"}]
            changed[keyword] = (
                [one if one == {"type": "null"} else _relax(one, root, above) for one in branches]
                if len(real) == 1
                else branches
            )
    return changed
