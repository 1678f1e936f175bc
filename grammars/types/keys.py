"""Keys of dicts: JSON has strings alone, so a key of another type is the text of its JSON value (``"1"``, ``"true"``), as serializers write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from constrained.grammars.content import CONTENT_KEYWORD

_SAID = ("title", "description", "default", "examples")


def key_schema(schema: dict[str, Any], resolve: Callable[[Any], Any]) -> dict[str, Any] | None:
    """The schema of the names of members that stand for the values of a schema; None if a value of it is no name.

    Args:
        schema: of the keys, as values.
        resolve: the schema that a reference names.
    """
    return _names(schema, resolve, ())


def _names(
    schema: dict[str, Any], resolve: Callable[[Any], Any], outer: tuple[str, ...]
) -> dict[str, Any] | None:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = None if reference in outer else resolve(reference)
        names = _names(target, resolve, (*outer, reference)) if isinstance(target, dict) else None
        return {"$ref": reference} if names == target else names
    for union in ("anyOf", "oneOf"):
        if union in schema:
            found = [_names(part, resolve, outer) for part in schema[union] if part.get("type") != "null"]
            return {"anyOf": found} if found and None not in found else None
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        plain = all(isinstance(value, str | int | float) for value in values)
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        return ({"const": texts[0]} if len(texts) == 1 else {"enum": texts}) if plain else None
    kind = schema.get("type", "string")
    if kind in ("integer", "number", "boolean"):
        inner = {name: value for name, value in schema.items() if name not in _SAID}
        return {"type": "string", CONTENT_KEYWORD: {"json": inner}}
    if kind != "string":
        return None
    return {"type": "string", **{name: value for name, value in schema.items() if name not in _SAID}}


def key_builder(build: Callable[[Any], Any]) -> Callable[[str], Any]:
    """Name of a member -> key: the value of the name itself, or else that of the JSON in it."""

    def key(name: str) -> Any:
        try:
            return build(name)
        except ValueError:
            try:
                value = json.loads(name)
            except ValueError:
                value = name
            return build(value)

    return key
