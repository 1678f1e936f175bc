"""Dispatch: reads a type by the type itself, by the origin of a generic, or by the kind of a class."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from constrained.grammars.errors import InvalidConstraint, Problem
from constrained.grammars.types import containers, contents, metadata, models, records, values
from constrained.grammars.types.metadata import IGNORED_PATTERN, ignored_pattern
from constrained.grammars.types.reader import SchemaAndBuilder, TypeNode, TypeReader, name_of
from constrained.grammars.types.scalars import SCALARS
from constrained.grammars.types.values import union_builder


def read_type(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """The node of any type."""
    if isinstance(hint, (str, typing.ForwardRef)):
        name = hint if isinstance(hint, str) else hint.__forward_arg__
        raise InvalidConstraint(
            f"an annotation of {path} cannot be resolved",
            Problem(path, f"{name!r} is a name outside of any class"),
            action="write the type itself, without quotes",
        )
    origin = typing.get_origin(hint)
    if origin is not None and origin in _ORIGINS:
        return _ORIGINS[origin](reader, hint, path)
    found = _lookup(SCALARS, hint)
    if found is not None:
        return TypeNode(dict(found[0]), found[1])
    for is_kind, read_kind in _KINDS:
        if is_kind(hint):
            return read_kind(reader, hint, path)
    return reader.refuse(path, f"{name_of(hint)} has no form in JSON{_advice(hint)}")


def _lookup(table: dict[Any, Any], key: Any) -> Any:
    try:
        return table.get(key)
    except TypeError:  # not hashable
        return None


def _advice(hint: Any) -> str:
    if hint in (bytearray, memoryview):
        return ": use bytes"
    if isinstance(hint, type):
        return ": make it a dataclass, a TypedDict or a pydantic model"
    if not isinstance(hint, typing.TypeVar) and not hasattr(hint, "__origin__"):
        if type(hint).__module__ in ("builtins", "typing"):
            return ": it is not a type"
        return f": it is a value; pass its class, {type(hint).__name__}"
    return ""


def _annotated(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    if ignored_pattern(hint.__metadata__):
        return reader.refuse(path, IGNORED_PATTERN)
    if any(models.is_pydantic(meta) for meta in hint.__metadata__):
        node = _pydantic(reader, hint, path)
    else:
        node = reader.read(hint.__origin__, path)
        try:
            schema = metadata.apply_metadata(node.schema, hint.__metadata__)
            for constraint in filter(contents.is_string_constraint, hint.__metadata__):
                schema = contents.add_content(schema, constraint, reader.contents)
        except contents.UnsupportedMetadata as refused:
            return reader.refuse(path, str(refused))
        if schema is not node.schema:
            node = TypeNode(schema, node.build)  # only scalars and containers take bounds: they are finished
    description = metadata.describe(hint.__metadata__)
    if description:
        inner = node
        node = TypeNode({**inner.schema, "description": description}, lambda value: inner.build(value))
    return node


def _qualified(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    return reader.read(typing.get_args(hint)[0], path)


def _union(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    members = [reader.read(member, path) for member in typing.get_args(hint)]
    return TypeNode(
        {"anyOf": [member.schema for member in members]},
        union_builder(members, reader.definitions, name_of(hint)),
    )


def _record(
    fields_of: Callable[[Any, TypeReader, str], records.RecordType],
) -> Callable[[TypeReader, Any, str], TypeNode]:
    def read(reader: TypeReader, hint: Any, path: str) -> TypeNode:
        def lower() -> SchemaAndBuilder:
            outer, reader.owner = reader.owner, hint
            made = records.lower_record(fields_of(hint, reader, path), name_of(hint), reader, path)
            reader.owner = outer
            return made

        return reader.define(hint, lower)

    return read


def _alias(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    alias = records.origin_class(hint)
    if any(models.is_pydantic(meta) for meta in getattr(alias.__value__, "__metadata__", ())):
        return _pydantic(reader, hint, path)  # `JsonValue` names itself, which pydantic alone can resolve

    def lower() -> SchemaAndBuilder:
        node = reader.read(records.alias_value(hint, reader, path), path)
        return node.schema, node.build

    return reader.define(hint, lower)


def _variable(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    if hint.__constraints__:
        return reader.read(typing.Union[hint.__constraints__], path)  # noqa: UP007 - built at run time
    return reader.read(hint.__bound__ or Any, path)


def _pydantic(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    def lower() -> SchemaAndBuilder:
        adapter = models.adapter_of(hint)
        with contents.reading(reader.contents):
            schema = models.pydantic_schema(adapter, reader.definitions)
        # Through JSON text, so that strict models take dates and enums.
        return schema, lambda value: adapter.validate_json(json.dumps(value))

    try:
        return reader.define_shared(hint, lower) if isinstance(hint, type) else TypeNode(*lower())
    except models.PydanticSchemaError as refused:
        return reader.refuse(path + refused.place, str(refused))


def _self(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    if reader.owner is None:
        return reader.refuse(path, "Self stands outside of any class: name the class")
    return reader.read(reader.owner, path)


def _is_class(hint: Any) -> bool:
    return isinstance(records.origin_class(hint), type)


_ORIGINS: dict[Any, Callable[[TypeReader, Any, str], TypeNode]] = {
    typing.Annotated: _annotated,
    typing.Literal: values.literal,
    typing.Union: _union,
    types.UnionType: _union,
    tuple: containers.fixed_tuple,
    **dict.fromkeys(
        (list, collections.abc.Sequence, collections.abc.MutableSequence), containers.array_of(list)
    ),
    **dict.fromkeys((collections.abc.Iterable, collections.abc.Collection), containers.array_of(list)),
    collections.deque: containers.array_of(collections.deque),
    **dict.fromkeys(
        (dict, collections.abc.Mapping, collections.abc.MutableMapping), containers.mapping_of(dict)
    ),
    collections.OrderedDict: containers.mapping_of(collections.OrderedDict),
    collections.defaultdict: containers.default_dict,
    collections.Counter: containers.counter,
    **dict.fromkeys((set, collections.abc.Set, collections.abc.MutableSet), containers.set_of(set)),
    frozenset: containers.set_of(frozenset),
    re.Pattern: lambda reader, _, path: reader.read(re.Pattern, path),
    **dict.fromkeys((typing.Final, typing.ClassVar), _qualified),
}
"""Origin of a generic type -> how it is read. Without arguments these are found through `_KINDS`."""

_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[TypeReader, Any, str], TypeNode]], ...] = (
    (lambda hint: hint is None, lambda reader, _, path: reader.read(type(None), path)),
    (lambda hint: getattr(hint, "_name", None) == "Self", _self),
    (models.is_pydantic, _pydantic),
    (lambda hint: isinstance(hint, type) and issubclass(hint, enum.Enum), values.enumeration),
    (
        lambda hint: _is_class(hint) and dataclasses.is_dataclass(records.origin_class(hint)),
        _record(records.dataclass_record),
    ),
    (lambda hint: hasattr(records.origin_class(hint), "__attrs_attrs__"), _record(records.attrs_record)),
    (
        lambda hint: hasattr(records.origin_class(hint), "__required_keys__"),
        _record(records.typed_dict_record),
    ),
    (
        lambda hint: (
            _is_class(hint) and issubclass(records.origin_class(hint), tuple) and hasattr(hint, "_fields")
        ),
        _record(records.named_tuple_record),
    ),
    (
        lambda hint: hint is not re.Pattern and _lookup(_ORIGINS, hint) is not None,
        lambda reader, hint, path: _ORIGINS[hint](reader, hint, path),
    ),
    (
        lambda hint: hasattr(hint, "__supertype__"),
        lambda reader, hint, path: reader.read(hint.__supertype__, path),
    ),
    (lambda hint: type(records.origin_class(hint)).__name__ == "TypeAliasType", _alias),
    (lambda hint: isinstance(hint, typing.TypeVar), _variable),
    (lambda hint: inspect.isroutine(hint), _record(records.callable_record)),
)
"""Kinds of types in the order they are tried: pydantic first, for its dataclasses are dataclasses too."""
