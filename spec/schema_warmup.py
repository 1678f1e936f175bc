"""An example value for a JSON Schema with every declared member, in the order of the schema.

The value need not be valid: drafters learn the order of the names from it, and probe the model's logits where its values begin.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_MAX_DEPTH = 8
_MAX_NODES = 2000


class SchemaWarmup:
    """Builds the example value of one schema.

    Args:
        schema: a JSON Schema of any dialect; only references within the document are followed.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._left = _MAX_NODES

    def example_value(self) -> Any:
        """A value with all declared names."""
        return self._value(self._schema, _MAX_DEPTH)

    def _value(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        if not isinstance(schema, Mapping) or depth <= 0 or self._left <= 0:
            return 0
        members = self._members(schema, depth)
        if members:
            return {name: self._value(part, depth - 1) for name, part in members.items()}
        items = schema.get("items", schema.get("prefixItems"))
        if items is not None:
            part = items[0] if isinstance(items, list) and items else items
            return [self._value(part, depth - 1), self._value(part, depth - 1)]
        for inner in self._inner(schema):
            return self._value(inner, depth - 1)
        return _sample(schema)

    def _members(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """The declared members of the schema and of its subschemas in place."""
        members = dict(schema["properties"]) if isinstance(schema.get("properties"), Mapping) else {}
        self._left -= 1
        if depth > 0 and self._left > 0:
            for inner in self._inner(schema):
                if isinstance(inner, Mapping):
                    for name, part in self._members(inner, depth - 1).items():
                        members.setdefault(name, part)
        return members

    def _inner(self, schema: Mapping[str, Any]) -> list[Any]:
        """The subschemas in place: of `$ref`, `allOf`, `anyOf` and `oneOf`."""
        reference = schema.get("$ref")
        local = isinstance(reference, str) and reference.startswith("#")
        subschemas = [self._resolved(reference)] if local and isinstance(reference, str) else []
        for keyword in ("allOf", "anyOf", "oneOf"):
            parts = schema.get(keyword)
            subschemas += parts if isinstance(parts, list) else []
        return subschemas

    def _resolved(self, reference: str) -> Any:
        part: Any = self._schema
        for step in reference.lstrip("#").split("/")[1:]:
            part = part.get(_unescaped(step)) if isinstance(part, Mapping) else None
        return part


_SAMPLES = {"string": "A", "boolean": True, "null": None}


def _sample(schema: Mapping[str, Any]) -> Any:
    """A value of the type of a schema without members; 0 where it is not known."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0] if isinstance(choices[0], str | bool | None) else 0
    types = schema.get("type")
    first = types[0] if isinstance(types, list) and types else types
    return _SAMPLES.get(first, 0) if isinstance(first, str) else 0


def value_openings(value: Any, colon: str, begun: str = "") -> Iterator[tuple[str, str]]:
    """The places of the values in an example: a text up to each of them, without the members before, and the value.

    Of an array the first element counts.

    Args:
        value: the example.
        colon: what follows names.
        begun: the text before the value.
    """
    if isinstance(value, dict) and value:
        for name, part in value.items():
            opened = "{" + json.dumps(name, ensure_ascii=False) + colon
            yield from value_openings(part, colon, begun + opened)
    elif isinstance(value, list) and value:
        yield from value_openings(value[0], colon, begun + "[")
    elif isinstance(value, str):
        yield begun + '"', value
    else:
        yield begun, json.dumps(value)


def _unescaped(step: str) -> str:
    """A reference token of a JSON Pointer as a key (RFC 6901, section 4)."""
    return step.replace("~1", "/").replace("~0", "~")
