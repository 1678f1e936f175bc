"""What pydantic's core schemas say of a type and its JSON Schemas do not: what it can read from JSON, and what can be hashed."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from constrained.grammars.types.pydantic_contents import function_name


def reads_from_json(value: Any) -> bool:
    """Whether pydantic finds a value of a `Literal` in JSON: a member of an enum is found where it is a string or a number itself."""
    return (
        value is None
        or isinstance(value, str | int)
        or (isinstance(value, float) and not isinstance(value, enum.Enum))
    )


def keys_are_read(schema: Mapping[str, Any]) -> bool:
    """Whether pydantic reads the keys of a core schema from the names of members: numbers of a `Literal` or of a plain enum it does not."""
    if schema["type"] == "literal":
        return all(isinstance(value, str) for value in schema["expected"])
    if schema["type"] == "enum" and schema.get("sub_type") is None:
        return all(isinstance(member.value, str) for member in schema["members"])
    return all(map(keys_are_read, _inner(schema)))


def unhashable(schema: Mapping[str, Any]) -> bool:
    """Whether values of a core schema cannot be items of a set."""
    kind = schema["type"]
    if kind in ("model", "dataclass"):
        return getattr(schema["cls"], "__hash__", None) is None
    if kind == "tuple":
        return any(map(unhashable, schema["items_schema"]))
    return kind in ("list", "dict", "set", "typed-dict", "generator") or any(map(unhashable, _inner(schema)))


def _inner(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas of which a core schema is made without a container."""
    for name in ("schema", "lax_schema", "json_schema"):
        if isinstance(schema.get(name), Mapping) and "type" in schema[name]:
            yield schema[name]
    choices = schema.get("choices", ())
    for choice in choices.values() if isinstance(choices, Mapping) else choices:
        yield choice[0] if isinstance(choice, tuple) else choice


def length_of(schema: Mapping[str, Any]) -> bool:
    """Whether a core schema is a function of pydantic's own that measures the length of what it has read."""
    return schema["type"] == "function-after" and function_name(schema) in (
        "min_length_validator",
        "max_length_validator",
    )


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether what such a function measures is an instance of a class, whose length is its own matter."""
    while schema["type"] == "function-after":
        schema = schema["schema"]
    return schema["type"] in ("model", "dataclass")


def kinds_of(schema: Mapping[str, Any], resolve: Callable[[Any], Any], depth: int = 9) -> set[str]:
    """The types of the values of a JSON Schema."""
    if isinstance(reference := schema.get("$ref"), str) and depth:
        return kinds_of(resolve(reference) or {}, resolve, depth - 1)
    if "anyOf" in schema:
        return {kind for part in schema["anyOf"] for kind in kinds_of(part, resolve, depth)}
    kinds = schema.get("type", ())
    return {kinds} if isinstance(kinds, str) else set(kinds)


def only_paths(alias: Any) -> bool:
    """Whether a field is read from inside another member alone."""
    if not isinstance(alias, list):
        return False
    return all(
        isinstance(path, list) and len(path) > 1
        for path in (alias if isinstance(alias[0], list) else [alias])
    )


def combined_flags(members: Sequence[enum.Flag]) -> list[int]:
    """The numbers of all combinations of up to eight flags; of more flags, those of each alone."""
    numbers = [member.value for member in members]
    whole = functools.reduce(operator.or_, numbers)
    return [part for part in range(whole + 1) if part | whole == whole] if whole < 256 else numbers
