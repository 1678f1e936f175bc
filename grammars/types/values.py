"""Types that are one of several: `Literal`, `Enum`, and the members of a union."""

from __future__ import annotations

import enum
import functools
import json
import math
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from constrained.grammars.errors import Problem, UnsatisfiableConstraint
from constrained.grammars.types.contents import copied
from constrained.grammars.types.metadata import own_docstring, split_docstring
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


def union_builder(
    members: Sequence[TypeNode], definitions: Mapping[str, Any], name: str
) -> Callable[[Any], Any]:
    """Builds a value of a union: by the most specific member whose schema the value satisfies.

    A constant precedes a format, a format a plain type, a plain type `Any`; for an integer, `int` precedes `float`; of
    two records the one that leaves fewer fields unset is used. Ties go to the first declared member. A member that
    cannot be built (an impossible date) is skipped.

    Args:
        members: in declared order.
        definitions: what `$ref` refers to; may still grow until the first value is built.
        name: of the union, for messages.
    """

    @functools.cache
    def judges() -> list[Callable[[Any], bool]]:
        return [_judge(member.schema, definitions) for member in members]

    def build(value: Any) -> Any:
        fitting = [member for member, fits in zip(members, judges(), strict=True) if fits(value)]
        fitting.sort(key=lambda member: _vagueness(member.schema, definitions, value))
        failure: Exception | None = None
        for member in fitting:
            try:
                return member.build(value)
            except Exception as error:
                failure = failure or error
        raise ValueError(f"{value!r} is not a value of {name}") from failure

    return build


def _judge(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Callable[[Any], bool]:
    from jsonschema import Draft202012Validator

    def lenient(part: dict[str, Any]) -> dict[str, Any]:
        part.pop("multipleOf", None)  # in floats 0.3 is no multiple of 0.1; the grammar has enforced it
        return part

    validator = Draft202012Validator(copied({**schema, "$defs": dict(definitions)}, lenient))
    is_valid: Callable[[Any], bool] = validator.is_valid
    return is_valid


def _vagueness(schema: Mapping[str, Any], definitions: Mapping[str, Any], value: Any) -> tuple[int, int]:
    """Sorting key of a member that fits: the kind of its schema, then how many properties the value leaves out."""
    seen: set[str] = set()
    while "$ref" in schema and schema["$ref"] not in seen:
        seen.add(schema["$ref"])
        schema = definitions.get(schema["$ref"].removeprefix("#/$defs/"), {})
    if "const" in schema or "enum" in schema:
        return 0, 0
    if "format" in schema or "pattern" in schema:
        return 1, 0
    if "anyOf" in schema:
        return min((_vagueness(member, definitions, value) for member in schema["anyOf"]), default=(4, 0))
    if "type" not in schema:
        return 4, 0
    if schema["type"] == "object" and isinstance(value, dict):
        return 2, len(schema.get("properties", {}).keys() - value.keys())
    # JSON does not distinguish 1 from 1.0, Python does.
    foreign = schema["type"] == ("integer" if isinstance(value, float) else "number")
    return (3 if foreign else 2), 0
