"""JSON values that keep their numbers as they were written, and the order that a schema gives to members."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from constrained.grammars.json_pointer import unescape
from constrained.grammars.json_schema.view import target_of

_MAX_DEPTH = 64


def read_exact(text: str) -> Any:
    """A JSON value whose numbers are `Decimal`: 1.10 keeps its zero, and long integers their digits."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def write_exact(value: Any, separators: tuple[str, str] = (", ", ": "), *, ensure_ascii: bool = False) -> str:
    """JSON text of a value of `read_exact`, or of plain Python values.

    Raises:
        TypeError: the value is not JSON.
    """
    comma, colon = separators
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"{value} is not a JSON number")
        return str(value)
    if isinstance(value, Mapping):
        members = (
            f"{json.dumps(name, ensure_ascii=ensure_ascii)}{colon}"
            f"{write_exact(member, separators, ensure_ascii=ensure_ascii)}"
            for name, member in value.items()
            if isinstance(name, str) or _refuse_key(name)
        )
        return "{" + comma.join(members) + "}"
    if isinstance(value, list | tuple):
        items = (write_exact(item, separators, ensure_ascii=ensure_ascii) for item in value)
        return "[" + comma.join(items) + "]"
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False)
    except ValueError as error:
        raise TypeError(str(error)) from error


def _refuse_key(name: object) -> bool:
    raise TypeError(f"the key {name!r} is not a str")


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
