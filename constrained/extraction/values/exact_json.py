"""JSON values that keep their numbers as they were written, and the order that a schema gives to members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from constrained.grammars.json_pointer import unescape
from constrained.grammars.json_schema.view import target_of

_MAX_DEPTH = 64


def resolve(schema: Any, root: Any) -> Any:
    """The schema that a `$ref` leads to; a schema without one, or with one that leads nowhere, unchanged.

    Args:
        schema: a part of `root`.
        root: a schema whose references are pointers, see `constrained.grammars.json_schema.view`.
    """
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return schema
        target = target_of(root, schema["$ref"])
        if target is None:
            return schema
        schema = target
    return schema


def in_schema_order(value: Any, schema: Any, root: Any) -> Any:
    """A copy of a JSON value whose objects have the order of the schema's `properties`, and then their own."""
    schema = resolve(schema, root)
    if isinstance(value, Mapping):
        for candidate in _branches(schema, root):
            properties = candidate.get("properties")
            if isinstance(properties, Mapping) and set(value) & set(properties):
                order = [name for name in properties if name in value]
                order += [name for name in value if name not in properties]
                return {name: in_schema_order(value[name], properties.get(name), root) for name in order}
        return dict(value)
    if isinstance(value, list | tuple):
        for candidate in _branches(schema, root):
            if isinstance(candidate.get("items"), Mapping):
                return [in_schema_order(item, candidate["items"], root) for item in value]
        return list(value)
    return value


def _branches(schema: Any, root: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A schema and the alternatives in it."""
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or depth > 4:
        return
    yield schema
    for keyword in ("anyOf", "oneOf", "allOf"):
        for branch in schema.get(keyword) or ():
            yield from _branches(branch, root, depth + 1)


def has_unique_items(schema: Any, pointer: str) -> bool:
    """Whether a schema says ``uniqueItems`` of the array at a JSON pointer of a value."""
    here = [schema]
    for part in pointer.split("/")[1:]:
        name = unescape(part)
        below: list[Any] = []
        for branch in here:
            for one in _branches(branch, schema):
                properties = one.get("properties")
                if isinstance(properties, Mapping) and name in properties:
                    below.append(properties[name])
                elif isinstance(one.get("items"), Mapping) and name.isdigit():
                    below.append(one["items"])
                elif isinstance(one.get("additionalProperties"), Mapping):
                    below.append(one["additionalProperties"])
        here = below
    return any(one.get("uniqueItems") is True for branch in here for one in _branches(branch, schema))
