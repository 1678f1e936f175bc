"""`as_constraint`: from a Python type, a schema or a pattern to the constraint that it stands for."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.constraint.base import Constraint, shorten
from constrained.constraint.json import MAX_DIGITS, ONE_LINE, json_schema, python_type
from constrained.constraint.text import regex
from constrained.errors import InvalidConstraint


@functools.singledispatch
def as_constraint(value: Any) -> Constraint:
    """The constraint that a value stands for.

    | value | constraint |
    |---|---|
    | a constraint | unchanged |
    | `dict`, `bool` | `json_schema(value, max_digits=MAX_DIGITS)` |
    | `re.Pattern` | `regex` |
    | a type or annotation | `python_type` |

    Raises:
        InvalidConstraint: the value is a `str` or `bytes`, which is ambiguous, a collection, or None.
        ConstraintError: the constructor in the table refuses the value.
    """
    return python_type(value)


def generated_constraint(value: Any, *, closed: bool = True) -> Constraint:
    """The constraint that a value stands for where a model writes and nobody reads what others wrote.

    As `as_constraint`, but JSON comes in one line, and objects that declare members have no others, unless the schema has
    ``additionalProperties``. Models write both better: a small one fills an open object with the schema that it was shown.
    A constraint is unchanged.

    Args:
        value: as for `as_constraint`.
        closed: False: objects of a schema have undeclared members, too.

    Raises:
        ConstraintError: as `as_constraint`.
    """
    if isinstance(value, Mapping | bool):
        return json_schema(
            value, separators=ONE_LINE, additional_properties_default=not closed, max_digits=MAX_DIGITS
        )
    if as_constraint.dispatch(type(value)) is as_constraint.dispatch(object):
        return python_type(value, separators=ONE_LINE, dates="written")
    return as_constraint(value)


@as_constraint.register(Constraint)
def _(value: Constraint) -> Constraint:
    return value


@as_constraint.register(Mapping)
@as_constraint.register(bool)
def _(value: Any) -> Constraint:
    return json_schema(value, max_digits=MAX_DIGITS)


@as_constraint.register(re.Pattern)
def _(value: re.Pattern[str]) -> Constraint:
    return regex(value)


@as_constraint.register(str)
@as_constraint.register(bytes)
def _(value: str | bytes) -> Constraint:
    raise InvalidConstraint(
        f"{shorten(repr(value))} could be a schema, a pattern or a choice",
        action="name the kind: json_schema(text), regex(pattern) or choice([text, ...])",
    )


@as_constraint.register(Sequence)
@as_constraint.register(set)
@as_constraint.register(frozenset)
def _(value: Any) -> Constraint:
    raise InvalidConstraint(
        f"{shorten(repr(value))} is a collection of values",
        action="for one of several values use choice([...])",
    )


@as_constraint.register(type(None))
def _(value: None) -> Constraint:
    raise InvalidConstraint(
        "no constraint was given", action="pass a type, a schema, or regex(...) or choice(...)"
    )
