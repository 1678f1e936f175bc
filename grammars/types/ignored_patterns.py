"""Finds compiled regular expressions in `Annotated`: neither Python nor pydantic checks them, and they look as if."""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import Annotated, Any

REASON = (
    "a compiled regular expression in Annotated constrains nothing: write constrained.regex(...), which the whole string "
    "has to match, or pydantic's Field(pattern=...)"
)


def ignored_pattern(metadata: tuple[Any, ...]) -> bool:
    """Whether a compiled regular expression is among the metadata."""
    return any(isinstance(meta, re.Pattern) for meta in metadata)


def find_ignored_pattern(hint: Any) -> str | None:
    """The place of a compiled regular expression in a type that pydantic reads, as ``.field``; None if there is none."""
    return _find(hint, {})


def _find(hint: Any, seen: dict[int, Any]) -> str | None:
    if id(hint) in seen:
        return None
    seen[id(hint)] = hint  # kept, so that no other object gets its id
    if typing.get_origin(hint) is Annotated and ignored_pattern(hint.__metadata__):
        return ""
    for argument in typing.get_args(hint):
        if (place := _find(argument, seen)) is not None:
            return place
    for name, (inner, metadata) in _fields(hint).items():
        place = "" if ignored_pattern(metadata) else _find(inner, seen)
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
