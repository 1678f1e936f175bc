"""Strings whose content a constraint or a type gives: how a schema says so, to the grammar and to a prompt.

While a type is read, its schema has `constrained.grammars.content.CONTENT_KEYWORD` beside what a prompt shows. `shown` leaves that
keyword out, `enforced` puts it in the place of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD, StringConstraint

if TYPE_CHECKING:
    from collections.abc import Iterator

Contents = dict[str, StringConstraint]

_READING: ContextVar[Contents | None] = ContextVar(
    "constraints in the type that pydantic reads", default=None
)


class UnsupportedContent(Exception):
    """A constraint cannot be applied to a type; the message is the reason."""


def is_string_constraint(meta: Any) -> bool:
    """Whether a piece of metadata is a constraint."""
    return not isinstance(meta, type) and hasattr(type(meta), "__string_constraint__")


def add_content(schema: dict[str, Any], constraint: StringConstraint, contents: Contents) -> dict[str, Any]:
    """The schema of strings with this content; of alternatives, those that are strings.

    Raises:
        UnsupportedContent: the schema does not describe strings, or has another such constraint.
    """
    if isinstance(schema.get("anyOf"), list):
        strings = [_is_string(member) for member in schema["anyOf"]]
        if any(strings):
            members = [
                add_content(member, constraint, contents) if matches else member
                for member, matches in zip(schema["anyOf"], strings, strict=True)
            ]
            return {**schema, "anyOf": members}
    name = constraint.render()
    if not _is_string(schema):
        what = schema.get("type") or "this type"
        raise UnsupportedContent(f"the constraint {name} does not apply to {what}: only to str")
    if CONTENT_KEYWORD in schema and isinstance(schema[CONTENT_KEYWORD], str):
        raise UnsupportedContent(f"{name} is a second constraint of one string: give one that says both")
    if getattr(constraint, "special_tokens", ()):
        raise UnsupportedContent(f"{name} contains special tokens, which no JSON string can contain")
    contents[constraint.key] = constraint
    if CONTENT_KEYWORD in schema:  # the texts of a type, such as datetime: both hold
        return {"allOf": [schema, {"type": "string", CONTENT_KEYWORD: constraint.key}]}
    return {**schema, CONTENT_KEYWORD: constraint.key}


def _is_string(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and "const" not in schema and "enum" not in schema


@contextmanager
def reading(contents: Contents) -> Iterator[None]:
    """Inside, constraints in types that pydantic reads are added to `contents`."""
    token = _READING.set(contents)
    try:
        yield
    finally:
        _READING.reset(token)


def pydantic_json_schema(constraint: StringConstraint, schema: dict[str, Any]) -> dict[str, Any]:
    """What `__get_pydantic_json_schema__` of a constraint returns.

    Raises:
        UnsupportedContent: as `add_content`, while a type is read for a grammar.
    """
    contents = _READING.get()
    if contents is None:  # somebody else's use of the schema: what JSON Schema can say of the constraint
        return {**schema, **_description(constraint)} if _is_string(schema) else schema
    return add_content(schema, constraint, contents)


def shown(schema: Any, contents: Mapping[str, StringConstraint]) -> Any:
    """The schema for a prompt and for users."""
    return copied(schema, lambda part: _shown(part, contents))


def enforced(schema: Any) -> Any:
    """The schema for the grammar: with the texts that Python can represent."""
    return copied(schema, _enforced)


def _shown(part: dict[str, Any], contents: Mapping[str, StringConstraint]) -> dict[str, Any]:
    part.pop(CHECKED_KEYWORD, None)
    if part.get("propertyNames") == {"type": "string"}:
        del part["propertyNames"]
    content = part.pop(CONTENT_KEYWORD, None)
    constraint = contents.get(content) if isinstance(content, str) else None
    return part if constraint is None else _description(constraint) | part


def _description(constraint: StringConstraint) -> dict[str, Any]:
    """Keywords of JSON Schema that describe a constraint to a reader."""
    schema = constraint.schema
    if isinstance(schema, dict) and "enum" in schema:
        return {"enum": [value if isinstance(value, str) else str(value) for value in schema["enum"]]}
    pattern = getattr(constraint, "pattern", None)
    return (
        {"pattern": f"^(?:{pattern})$"} if isinstance(pattern, str) else {"description": constraint.render()}
    )


_FORMATS: dict[str, dict[str, Any]] = {
    "fraction": {"fraction": {}},
    **{f"uuid{version}": {"uuid": {"version": version}} for version in range(1, 9)},
    **{
        f"ip{name}{form}": {"ip": {"version": version, "form": form or "address"}}
        for name, version in (("v4", 4), ("v6", 6), ("vany", None))
        for form in ("", "address", "network", "interface")
        if name == "vany" or form not in ("", "address")
    },
}
"""Formats that only Python's types have -> the kind of their texts."""
_CHECKED_FORMATS = {
    "zoneinfo": "a time zone of that name exists",
    "file-path": "a file of that name exists",
    "directory-path": "a directory of that name exists",
    "path": "the path does not exist yet, and its directory does",
}


def _enforced(part: dict[str, Any]) -> dict[str, Any]:
    if CONTENT_KEYWORD in part:
        if part[CONTENT_KEYWORD] == {"json": None}:
            part[CONTENT_KEYWORD] = {"json": part["contentSchema"]}
        return part
    name = part.get("format")
    if part.get("type") != "string" or not isinstance(name, str):
        return part
    if name in _FORMATS:
        return {**part, CONTENT_KEYWORD: _FORMATS[name]}
    if name in _CHECKED_FORMATS:
        return {**part, CHECKED_KEYWORD: _CHECKED_FORMATS[name]}
    return part


_MAPS = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"const", "enum", "default", "examples", CONTENT_KEYWORD})


def copied(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of a schema in which `change` was applied to every subschema."""
    if isinstance(schema, list):
        return [copied(part, change) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            result[keyword] = {name: copied(part, change) for name, part in value.items()}
        else:
            result[keyword] = value if keyword in _VALUES else copied(value, change)
    return change(result)
