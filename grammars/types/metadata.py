"""Metadata of `Annotated`: bounds and lengths of the `annotated_types` vocabulary, and descriptions.

Objects are distinguished by the name of their class, so that neither `annotated_types` nor `typing_extensions`
is imported. Other metadata is ignored, as PEP 593 requires.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from constrained.grammars.types.span import apply_span

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


class UnsupportedMetadata(Exception):
    """A piece of metadata cannot be expressed in JSON Schema; the message is the reason."""


def from_annotated_types(meta: Any) -> bool:
    """Whether this is an object of the `annotated_types` package."""
    return type(meta).__module__.partition(".")[0] == "annotated_types"


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
        Refused: a bound that does not apply to what the schema describes, or a kind that JSON Schema lacks.
    """
    metadata = tuple(metadata)
    for bound in _bounds(metadata):
        schema = _apply(schema, bound)
    try:
        return apply_span(schema, metadata)
    except TypeError as error:
        raise UnsupportedMetadata(str(error)) from None


def _bounds(metadata: Iterable[Any]) -> Iterator[Bound]:
    for meta in metadata:
        if not from_annotated_types(meta):
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
    if "anyOf" in schema:
        # A bound beside `anyOf` limits only the members of its type, so it may as well be written inside them.
        kinds = [_applies(member, keyword) for member in schema["anyOf"]]
        if any(kinds):
            members = [
                _apply(member, bound) if applies else member
                for member, applies in zip(schema["anyOf"], kinds, strict=True)
            ]
            return {**schema, "anyOf": members}
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
