"""`as_constraint`: from a Python type, a schema or a pattern to the constraint that it stands for.

The files of the constraints register what stands for theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from constrained.constraint.base import Constraint, shorten
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
    raise NotImplementedError("json.py registers `object`")


@as_constraint.register(Constraint)
def _(value: Constraint) -> Constraint:
    return value


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
