"""Strings whose content a constraint, a type or a document (`Span`) gives: how a schema says so, to the grammar and to a prompt.

While a type is read, its schema has `constrained.grammars.content.CONTENT_KEYWORD` beside what a prompt shows. `shown` leaves that
keyword out, `enforced` puts it in the place of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from constrained.grammars.content import CHECKED_KEYWORD, CONTENT_KEYWORD, StringConstraint

if TYPE_CHECKING:
    from collections.abc import Iterator


class UnsupportedMetadata(TypeError):
    """A piece of metadata of `Annotated` cannot be applied to a type; the message is the reason."""


class _SpanType(type):
    @property
    def __get_pydantic_json_schema__(cls) -> Callable[[Any, Any], dict[str, Any]]:
        # Pydantic asks the metadata itself, which is this class in `Annotated[str, Span]`.
        return lambda core_schema, handler: cls().mark(handler(core_schema))


@dataclass(frozen=True, slots=True)
class Span(metaclass=_SpanType):
    """The string is a verbatim, non-empty span of the document: ``Annotated[str, Span]``, ``Annotated[str, Span(...)]``.

    Attributes:
        case: ``"any"``: characters may differ in case (equal by Unicode's simple case folding).
        space: ``"any"``: a run of white space of the document may also be written as one space.
        words: the span neither begins nor ends inside a word.
    """

    case: Literal["exact", "any"] = "exact"
    space: Literal["exact", "any"] = "exact"
    words: bool = False

    def __post_init__(self) -> None:
        for name, choice in (("case", self.case), ("space", self.space)):
            if choice not in ("exact", "any"):
                raise ValueError(f'Span({name}={choice!r}): use "exact" or "any"')
        if not isinstance(self.words, bool):
            raise ValueError(f"Span(words={self.words!r}): use True or False")

    @property
    def keyword(self) -> bool | dict[str, Any]:
        """The value of ``x-span`` in a schema."""
        options = {"case": self.case, "space": self.space, "words": self.words}
        return {name: value for name, value in options.items() if value not in ("exact", False)} or True

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with ``x-span`` at its strings, as a new schema.

        Raises:
            UnsupportedMetadata: the schema describes no strings.
        """
        changed = in_alternatives(schema, lambda one: one.get("type") == "string", self.mark)
        if changed is not None:
            return changed
        if schema.get("type") != "string":
            raise UnsupportedMetadata(f"Span is for strings, not for {schema.get('type', 'this type')}")
        return {**schema, "x-span": self.keyword}

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return self.mark(handler(core_schema))


def in_alternatives(
    schema: dict[str, Any],
    applies: Callable[[dict[str, Any]], bool],
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any] | None:
    """A schema with those members of its ``anyOf`` changed that a change applies to; None if there are none."""
    members = schema.get("anyOf")
    if not isinstance(members, list) or not any(map(applies, members)):
        return None
    return {**schema, "anyOf": [change(one) if applies(one) else one for one in members]}


Contents = dict[str, StringConstraint]

_READING: ContextVar[Contents | None] = ContextVar(
    "constraints in the type that pydantic reads", default=None
)


def is_string_constraint(meta: Any) -> bool:
    """Whether a piece of metadata is a constraint."""
    return not isinstance(meta, type) and hasattr(type(meta), "__string_constraint__")


def add_content(schema: dict[str, Any], constraint: StringConstraint, contents: Contents) -> dict[str, Any]:
    """The schema of strings with this content; of alternatives, those that are strings.

    Raises:
        UnsupportedMetadata: the schema does not describe strings, or has another such constraint.
    """
    changed = in_alternatives(schema, _is_string, lambda one: add_content(one, constraint, contents))
    if changed is not None:
        return changed
    name = constraint.render()
    if not _is_string(schema):
        what = schema.get("type") or "this type"
        raise UnsupportedMetadata(f"the constraint {name} does not apply to {what}: only to str")
    if CONTENT_KEYWORD in schema and isinstance(schema[CONTENT_KEYWORD], str):
        raise UnsupportedMetadata(f"{name} is a second constraint of one string: give one that says both")
    if getattr(constraint, "special_tokens", ()):
        raise UnsupportedMetadata(f"{name} contains special tokens, which no JSON string can contain")
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
        UnsupportedMetadata: as `add_content`, while a type is read for a grammar.
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
