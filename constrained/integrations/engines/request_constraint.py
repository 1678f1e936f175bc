"""The constraint that a request to an engine asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from constrained.constraint import Constraint, choice, ebnf, json_schema, lark, regex, structural_tag
from constrained.constraint.json import MAX_DIGITS, ONE_LINE
from constrained.errors import (
    InvalidArgument,
    InvalidConstraint,
    Problem,
    UnsupportedConstraint,
)

KINDS = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
"""Kinds of constraints, by the names of vLLM's fields."""

FLAGS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")
"""What changes the meaning of ``json`` and ``json_object``."""


def request_constraint(given: Mapping[str, Any]) -> Constraint:
    """The constraint of a request; a grammar with ``::=`` is EBNF or GBNF, another one is Lark.

    Args:
        given: exactly one of `KINDS`, and any of `FLAGS`.

    Raises:
        ConstraintError: the constraint is malformed or cannot be enforced.
        InvalidArgument: there is none, or several.
    """
    kinds = [name for name in KINDS if name in given]
    if len(kinds) != 1:
        raise InvalidArgument(
            f"the request has {len(kinds)} constraints",
            action=f"give exactly one of {', '.join(KINDS)}",
        )
    (kind,) = kinds
    makers: dict[str, Callable[[Any], Constraint]] = {
        "json": lambda value: _json(_read(value, kind), given),
        "json_object": lambda value: _json_object(value, given),
        "regex": regex,
        "choice": lambda value: choice(_read(value, kind)),
        "grammar": lambda value: ebnf(value) if isinstance(value, str) and "::=" in value else lark(value),
        "structural_tag": lambda value: structural_tag(_read(value, kind)),
    }
    constraint = makers[kind](given[kind])
    if constraint.needs_document:
        raise UnsupportedConstraint(
            "strings that are spans of a document need the document",
            Problem("#", "contains x-span"),
            action="name the document's text in the schema, or use constrained.Extractor",
        )
    return constraint


def _json(schema: Any, given: Mapping[str, Any]) -> Constraint:
    if given.get("whitespace_pattern"):
        raise UnsupportedConstraint(
            "whitespace_pattern cannot be enforced",
            Problem("whitespace_pattern", "is not supported", given["whitespace_pattern"]),
            action="leave it out: white space is bounded; or use disable_any_whitespace",
        )
    bare = bool(given.get("disable_any_whitespace"))
    return json_schema(
        schema,
        whitespace="none" if bare else "bounded",
        separators=None if bare else ONE_LINE,
        additional_properties_default=not given.get("disable_additional_properties"),
        distinct_names=True,
        max_digits=MAX_DIGITS,
    )


def _json_object(value: Any, given: Mapping[str, Any]) -> Constraint:
    if value is not True:
        raise InvalidConstraint(f"json_object is {value!r}", action="set it to true, or leave it out")
    return _json({"type": "object"}, given)


def _read(value: Any, name: str) -> Any:
    """A value that may be given as its JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidConstraint(
            f"{name} is not JSON: {error}", action="send an object, or its JSON text"
        ) from None
