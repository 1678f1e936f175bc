"""Lists, tuples, sets and dicts, and what the standard library makes of them.

Keys of dicts are strings in JSON, so a key of another type is the text of its JSON value (``"1"``, ``"true"``), as serializers
write it.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import types
import typing
from collections.abc import Callable
from typing import Any

from constrained.grammars.content import CONTENT_KEYWORD
from constrained.grammars.types.reader import TypeNode, TypeReader, definition_name, name_of

NO_KEYS = ": keys in JSON are strings, so use str, numbers, dates, or a Literal or an Enum of these"
"""Why a type cannot be that of a dict's keys."""
SCALARS_ALONE: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
"""Items of a set of anything: arrays and objects are lists and dicts, which no set can hold."""
_ABSTRACT = frozenset(
    getattr(collections.abc, name)
    for name in ("Iterable", "Collection", "Sequence", "MutableSequence", "Mapping", "MutableMapping", "Set", "MutableSet")
)  # fmt: skip


def _argument(hint: Any, index: int) -> Any:
    arguments = typing.get_args(hint)
    return arguments[index] if index < len(arguments) else Any


def array_of(kind: Callable[[Any], Any]) -> Callable[[TypeReader, Any, str], TypeNode]:
    """Reads arrays of any length into a list, a tuple or a deque."""
    return lambda reader, hint, path: _repeated(reader, _argument(hint, 0), path, kind)


def set_of(kind: Callable[[Any], Any]) -> Callable[[TypeReader, Any, str], TypeNode]:
    """Reads arrays of unique items into a set or a frozenset."""

    def read(reader: TypeReader, hint: Any, path: str) -> TypeNode:
        item = _argument(hint, 0)
        if unhashable(item):
            return reader.refuse(path, f"{name_of(item)} is not hashable, so no set can hold it: use list")
        node = _repeated(reader, item, path, kind)
        return TypeNode({"items": SCALARS_ALONE, **node.schema, "uniqueItems": True}, node.build)

    return read


def unhashable(hint: Any, outer: tuple[Any, ...] = ()) -> bool:
    """Whether values of a type cannot be items of a set; `outer` are the aliases around it."""
    origin = typing.get_origin(hint) or hint
    inner = getattr(hint, "__supertype__", None) or getattr(origin, "__value__", None)
    if inner is not None and hint not in outer and not isinstance(origin, type):
        return unhashable(inner, (*outer, hint))
    if origin in (typing.Annotated, typing.Union, types.UnionType, tuple):
        parts = typing.get_args(hint)[: 1 if origin is typing.Annotated else None]
        return any(unhashable(part, outer) for part in parts)
    return origin in _ABSTRACT or (isinstance(origin, type) and getattr(origin, "__hash__", None) is None)


def _repeated(reader: TypeReader, item: Any, path: str, kind: Callable[[Any], Any]) -> TypeNode:
    node = reader.read(item, f"{path}[]")

    def build(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"{value!r} is not an array")
        return kind(node.build(part) for part in value)

    items = {"items": node.schema} if node.schema else {}
    return TypeNode({"type": "array", **items}, build)


def fixed_tuple(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A tuple: of fixed items, or of any number of one kind."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is None or arguments[1:] == (...,):
        return _repeated(reader, _argument(hint, 0), path, tuple)
    nodes = [reader.read(argument, f"{path}[{index}]") for index, argument in enumerate(arguments)]
    size = len(nodes)

    def build(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != size:
            raise ValueError(f"{value!r} is not an array of {size}")
        return tuple(node.build(part) for node, part in zip(nodes, value, strict=True))

    prefix = {"prefixItems": [node.schema for node in nodes]} if nodes else {}
    return TypeNode({"type": "array", **prefix, "minItems": size, "maxItems": size}, build)


def mapping_of(kind: Callable[[dict[Any, Any]], Any]) -> Callable[[TypeReader, Any, str], TypeNode]:
    """Reads objects into a dict or a kind of it; keys of a finite set become optional properties."""
    return lambda reader, hint, path: _mapping(reader, hint, path, _argument(hint, 1), kind)


def counter(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A `Counter`: an object of integers."""
    return _mapping(reader, hint, path, int, collections.Counter)


def default_dict(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A `defaultdict`, whose new members are empty or zero, as the type of its values is when it is called; None for other types."""
    factory = typing.get_origin(_argument(hint, 1)) or _argument(hint, 1)
    known = factory if factory in (list, dict, set, str, int, float, bool, tuple) else None
    return mapping_of(lambda items: collections.defaultdict(known, items))(reader, hint, path)


def _mapping(
    reader: TypeReader, hint: Any, path: str, value: Any, kind: Callable[[dict[Any, Any]], Any]
) -> TypeNode:
    key = reader.read(_argument(hint, 0), f"{path}.keys()")
    node = reader.read(value, f"{path}{{}}")
    names = key_schema(
        key.schema, lambda reference: reader.definitions.get(definition_name({"$ref": reference}))
    )
    if names is None:
        return reader.refuse(path, f"keys of type {name_of(_argument(hint, 0))}{NO_KEYS}")
    shape = reader.definitions.get(definition_name(names), names)
    finite = shape.get("enum", [shape["const"]] if "const" in shape else None)
    if finite is not None:
        fixed = dict.fromkeys(finite, node.schema)
        schema: dict[str, Any] = {"type": "object", "properties": fixed, "additionalProperties": False}
    else:
        schema = {"type": "object", "additionalProperties": node.schema or True}
        if names != {"type": "string"}:
            schema["propertyNames"] = names
    key_of = key_builder(lambda name: key.build(name))

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not an object")
        return kind({key_of(name): node.build(part) for name, part in value.items()})

    return TypeNode(schema, build)


_SAID = ("title", "description", "default", "examples")


def key_schema(
    schema: dict[str, Any], resolve: Callable[[Any], Any], outer: tuple[str, ...] = ()
) -> dict[str, Any] | None:
    """The schema of the names of members that stand for the values of a schema; None if a value of it is no name.

    Args:
        schema: of the keys, as values.
        resolve: the schema that a reference names.
        outer: references that the schema stands in.
    """
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = None if reference in outer else resolve(reference)
        names = key_schema(target, resolve, (*outer, reference)) if isinstance(target, dict) else None
        return {"$ref": reference} if names == target else names
    for union in ("anyOf", "oneOf"):
        if union in schema:
            found = [key_schema(part, resolve, outer) for part in schema[union] if part.get("type") != "null"]
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
