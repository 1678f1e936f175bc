"""Types that list their values: `Literal` and `Enum`."""

from __future__ import annotations

import enum
import json
import math
import typing
from collections.abc import Iterable
from typing import Any

from constrained.grammars.errors import Problem, UnsatisfiableConstraint
from constrained.grammars.types.docstrings import own_docstring, split_docstring
from constrained.grammars.types.reader import SchemaAndBuilder, TypeNode, TypeReader, name_of


def _values(values: Iterable[tuple[Any, Any]], what: str) -> SchemaAndBuilder:
    """One of several JSON scalars, each standing for a Python value."""
    table = {(type(said) is bool, said): value for said, value in values}
    listed = [said for _, said in table]

    def build(value: Any) -> Any:
        try:
            return table[type(value) is bool, value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not one of the values of {what}") from None

    kinds = {_JSON_NAMES[type(said)] for said in listed}
    schema: dict[str, Any] = {"type": kinds.pop()} if len(kinds) == 1 else {}
    return schema | ({"const": listed[0]} if len(listed) == 1 else {"enum": listed}), build


_JSON_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def _plain(value: Any) -> Any:
    """The JSON scalar that an enum member or literal stands for; a non-finite float for what has none."""
    if isinstance(value, enum.Enum):
        value = value.value
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value if value is None else math.nan


def literal(reader: TypeReader, hint: Any, path: str) -> TypeNode:
    """One of the values of a `Literal`; enum members among them stay members."""
    pairs = [(_plain(value), value) for value in typing.get_args(hint)]
    for said, value in pairs:
        if isinstance(said, float) and not math.isfinite(said):
            return reader.refuse(path, f"the literal {value!r} has no form in JSON")
    return TypeNode(*_values(pairs, name_of(hint)))


def enumeration(reader: TypeReader, cls: type[enum.Enum], path: str) -> TypeNode:
    """One of the members of an `Enum`, by their values; the description names members of undescriptive values."""
    members = list(cls)
    if not members:
        raise UnsatisfiableConstraint(
            f"{cls.__name__} has no members", Problem(path, "an Enum without members has no values")
        )
    if issubclass(cls, enum.Flag):
        return reader.refuse(path, f"{cls.__name__} is a set of flags: use list of an Enum")
    pairs = [(_plain(member), member) for member in members]
    for said, member in pairs:
        if isinstance(said, float) and not math.isfinite(said):
            return reader.refuse(
                path, f"the value {member.value!r} of {member.name} has no form in JSON: use str"
            )

    def lower() -> SchemaAndBuilder:
        schema, build = _values(pairs, cls.__name__)
        said = split_docstring(own_docstring(cls))[0]
        if any(not isinstance(value, str) for value, _ in pairs):
            names = ", ".join(f"{json.dumps(value)} = {member.name}" for value, member in pairs)
            said = f"{said} ({names})" if said else names
        head = {"title": cls.__name__} | ({"description": said} if said else {})
        return head | schema, build

    return reader.define_shared(cls, lower)
