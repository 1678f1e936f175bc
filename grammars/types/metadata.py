"""What is said about a type beside it: metadata of `Annotated` (bounds and lengths of the `annotated_types` vocabulary), docstrings.

Objects are distinguished by the name of their class, so that neither `annotated_types` nor `typing_extensions`
is imported. Other metadata is ignored, as PEP 593 requires.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

from constrained.grammars.types.contents import Span, UnsupportedMetadata, in_alternatives

LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
"""Type -> what its keywords for a length end with."""
_NUMERIC = frozenset({"integer", "number"})

Bound = tuple[str, Any]
"""Keyword without the unit ("min" for any of minLength, minItems, minProperties), and its value."""

_BOUNDS: dict[str, Callable[[Any], Bound]] = {
    "Ge": lambda meta: ("minimum", meta.ge),
    "Gt": lambda meta: ("exclusiveMinimum", meta.gt),
    "Le": lambda meta: ("maximum", meta.le),
    "Lt": lambda meta: ("exclusiveMaximum", meta.lt),
    "MultipleOf": lambda meta: ("multipleOf", meta.multiple_of),
    "MinLen": lambda meta: ("min", meta.min_length),
    "MaxLen": lambda meta: ("max", meta.max_length),
}


def describe(metadata: Iterable[Any]) -> str:
    """The description among the metadata: the last string, or `typing_extensions.Doc`."""
    found = ""
    for meta in metadata:
        if isinstance(meta, str):
            found = meta
        elif type(meta).__name__ == "Doc" and isinstance(getattr(meta, "documentation", None), str):
            found = meta.documentation
    return " ".join(found.split())


def apply_metadata(schema: dict[str, Any], metadata: Iterable[Any]) -> dict[str, Any]:
    """The schema with the bounds among the metadata, as a new schema.

    Raises:
        UnsupportedMetadata: a bound that does not apply to what the schema describes, or a kind that JSON Schema lacks.
    """
    metadata = tuple(metadata)
    for bound in _bounds(metadata):
        schema = _apply(schema, bound)
    for meta in metadata:
        span = Span() if meta is Span else meta
        if isinstance(span, Span):
            schema = span.mark(schema)
    return schema


def _bounds(metadata: Iterable[Any]) -> Iterator[Bound]:
    for meta in metadata:
        if type(meta).__module__.partition(".")[0] != "annotated_types":
            continue
        kind = type(meta).__name__
        if kind in _BOUNDS:
            yield _BOUNDS[kind](meta)
        elif isinstance(meta, Iterable):  # Interval and Len stand for several
            yield from _bounds(meta)
        elif kind not in ("Unit", "DocInfo"):
            raise UnsupportedMetadata(
                f"{meta!r} cannot be expressed in JSON Schema: check it after generation"
            )


def _apply(schema: dict[str, Any], bound: Bound) -> dict[str, Any]:
    keyword, value = bound
    # A bound beside `anyOf` limits only the members of its type, so it may as well be written inside them.
    changed = in_alternatives(schema, lambda one: _applies(one, keyword), lambda one: _apply(one, bound))
    if changed is not None:
        return changed
    if not _applies(schema, keyword):
        what = schema.get("format") or schema.get("type") or "this type"
        raise UnsupportedMetadata(f"a bound ({keyword} {value!r}) does not apply to {what}")
    if keyword in ("min", "max"):
        if value is None:
            return schema
        keyword += LENGTHS[schema["type"]]
    else:
        value = _number(value)
    return {**schema, keyword: _strictest(keyword, schema.get(keyword), value)}


def _applies(schema: dict[str, Any], keyword: str) -> bool:
    kind = schema.get("type")
    if "format" in schema or not isinstance(kind, str) or "enum" in schema or "const" in schema:
        return False
    return kind in (LENGTHS if keyword in ("min", "max") else _NUMERIC)


def _number(value: Any) -> int | float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UnsupportedMetadata(f"the bound {value!r} is not a number") from None
    if not math.isfinite(number):
        raise UnsupportedMetadata(f"the bound {value!r} is not finite")
    return int(value) if value == int(value) else number


def _strictest(keyword: str, old: Any, new: Any) -> Any:
    if old is None:
        return new
    if keyword == "multipleOf":
        raise UnsupportedMetadata("two multiples cannot be combined: give their common multiple")
    return min(old, new) if "ax" in keyword else max(old, new)


_SECTION = re.compile(
    r"(Args|Arguments|Attributes|Fields|Parameters|Returns|Raises|Yields|Examples?|Notes?|See Also|Todo):\s*"
)
_FIELD_SECTIONS = frozenset({"Args", "Arguments", "Attributes", "Fields", "Parameters"})
_ENTRY = re.compile(r"(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")


def own_docstring(thing: Any) -> str:
    """The docstring that a class or function was written with; not an inherited or generated one."""
    if isinstance(thing, type):
        text = vars(thing).get("__doc__")
        # `dataclass` and `NamedTuple` write the signature where no docstring is, old versions of `Enum` a phrase.
        if not isinstance(text, str) or text.startswith(f"{thing.__name__}(") or text == "An enumeration.":
            return ""
    else:
        text = getattr(thing, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def split_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Splits a Google-style docstring into the text before its sections and the descriptions of fields.

    Returns:
        The text, and field name -> description from `Args:` and `Attributes:`, each on one line.
    """
    lead: list[str] = []
    fields: dict[str, str] = {}
    section: str | None = None
    indent: int | None = None
    name = ""
    for line in docstring.splitlines():
        heading = _SECTION.fullmatch(line)
        if heading:
            section, indent, name = heading[1], None, ""
        elif section is None:
            lead.append(line)
        elif section in _FIELD_SECTIONS and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            entry = _ENTRY.fullmatch(line.strip()) if depth == indent else None
            if entry:
                name = entry["name"].lstrip("*")
                fields[name] = entry["text"]
            elif name:
                fields[name] = f"{fields[name]} {line.strip()}".strip()
    return "\n".join(lead).strip(), fields


IGNORED_PATTERN = (
    "a compiled regular expression in Annotated constrains nothing: write constrained.regex(...), which the whole string "
    "has to match, or pydantic's Field(pattern=...)"
)


def ignored_pattern(metadata: tuple[Any, ...]) -> bool:
    """Whether a compiled regular expression is among the metadata."""
    return any(isinstance(meta, re.Pattern) for meta in metadata)


def find_ignored_pattern(hint: Any, seen: dict[int, Any] | None = None) -> str | None:
    """The place of a compiled regular expression in a type that pydantic reads, as ``.field``; None if there is none."""
    seen = {} if seen is None else seen
    if id(hint) in seen:
        return None
    seen[id(hint)] = hint  # kept, so that no other object gets its id
    if typing.get_origin(hint) is Annotated and ignored_pattern(hint.__metadata__):
        return ""
    for argument in typing.get_args(hint):
        if (place := find_ignored_pattern(argument, seen)) is not None:
            return place
    for name, (inner, metadata) in _fields(hint).items():
        place = "" if ignored_pattern(metadata) else find_ignored_pattern(inner, seen)
        if place is not None:
            return f".{name}{place}"
    return None


def _fields(hint: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Type and metadata of the members of a class."""
    if not isinstance(hint, type):
        return {}
    known = getattr(hint, "model_fields", None) or getattr(hint, "__pydantic_fields__", None)
    if isinstance(known, dict):
        return {name: (field.annotation, tuple(field.metadata)) for name, field in known.items()}
    if not dataclasses.is_dataclass(hint) and not hasattr(hint, "__annotations__"):
        return {}
    try:
        hints = typing.get_type_hints(hint, include_extras=True)
    except (NameError, TypeError):  # names of another scope, which pydantic has resolved
        return {}
    return {name: (inner, ()) for name, inner in hints.items()}
