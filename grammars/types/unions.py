"""Selects the member of a union that a JSON value belongs to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from constrained.grammars.types.contents import copied
from constrained.grammars.types.reader import TypeNode


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
