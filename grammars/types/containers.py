"""Lists, tuples, sets and dicts."""

from __future__ import annotations

import typing
from typing import Any

from constrained.grammars.types.reader import TypeNode, TypeReader, definition_name, name_of


def _argument(hint: Any, index: int) -> Any:
    arguments = typing.get_args(hint)
    return arguments[index] if index < len(arguments) else Any


def array(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A list of any length."""
    return _repeated(reader, _argument(hint, 0), path, list)


def _repeated(reader: TypeReader, item: Any, path: str, kind: type) -> TypeNode:
    node = reader.read(item, f"{path}[]")

    def build(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"{value!r} is not an array")
        return kind(node.build(part) for part in value)

    unique = {"uniqueItems": True} if kind in (set, frozenset) else {}
    items = {"items": node.schema} if node.schema else {}
    return TypeNode({"type": "array", **items, **unique}, build)


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


def mapping(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A dict whose keys are strings; keys of a finite set become optional properties."""
    key = reader.read(_argument(hint, 0), f"{path}.keys()")
    value_node = reader.read(_argument(hint, 1), f"{path}{{}}")
    shape = reader.definitions.get(definition_name(key.schema), key.schema)
    finite = shape.get("enum", [shape["const"]] if "const" in shape else None)
    if finite is not None and all(isinstance(name, str) for name in finite):
        fixed = dict.fromkeys(finite, value_node.schema)
        schema: dict[str, Any] = {"type": "object", "properties": fixed, "additionalProperties": False}
    elif shape in ({}, {"type": "string"}):
        schema = {"type": "object", "additionalProperties": value_node.schema or True}
    else:
        return reader.refuse(
            path,
            f"keys of type {name_of(_argument(hint, 0))}: keys in JSON are str, or a Literal or Enum of str",
        )

    def build(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r} is not an object")
        return {key.build(name): value_node.build(part) for name, part in value.items()}

    return TypeNode(schema, build)


def unique_set(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A set: an array of unique items."""
    return _repeated(reader, _argument(hint, 0), path, set)


def frozen_set(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """A frozenset: an array of unique items."""
    return _repeated(reader, _argument(hint, 0), path, frozenset)
