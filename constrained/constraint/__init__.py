"""Constraints: what a user asks of a text, and what the text is worth in Python.

A constraint knows the grammar of its texts and turns a text into a value. It must not know vocabularies, models
or samplers. The constructors check what can be checked at once; whether a schema or pattern can be enforced is
found out when `grammar` is first needed, at the latest by `compile`.

    base.py    what every constraint is
    json.py    JSON of a schema or a Python type
    text.py    bare text: a pattern, or one of several values
    notation.py   text of a grammar that someone wrote
    spans.py      a verbatim span of a document
    sections.py   free text around something structured
    structural.py   sections that triggers begin, out of a description
    guarded.py    what a function of the user accepts, alone or together with one of these
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from constrained.constraint.base import Constraint, shorten
from constrained.constraint.free_text import Section, ThinkingResult, after, tag, tags
from constrained.constraint.grammar import ebnf, gbnf, lark
from constrained.constraint.json import Whitespace, json_schema, python_type
from constrained.constraint.predicate import PredicateConstraint, predicate
from constrained.constraint.structural_tag import structural_tag
from constrained.constraint.substring import substring_of
from constrained.constraint.text import choice, regex
from constrained.errors import InvalidConstraint

__all__ = [
    "Constraint",
    "PredicateConstraint",
    "Section",
    "ThinkingResult",
    "Whitespace",
    "after",
    "as_constraint",
    "choice",
    "ebnf",
    "gbnf",
    "json_schema",
    "lark",
    "predicate",
    "python_type",
    "regex",
    "structural_tag",
    "substring_of",
    "tag",
    "tags",
]


@functools.singledispatch
def as_constraint(value: Any) -> Constraint:
    """The constraint that is meant by what a user passes.

    | passed | meant |
    |---|---|
    | a constraint | itself |
    | `dict`, `bool` | `json_schema` |
    | `re.Pattern` | `regex` |
    | a type or annotation | `python_type` |

    Raises:
        InvalidConstraint: a `str`, which could be any of several things, a list of values, or None.
        ConstraintError: as the constructor that is chosen.
    """
    return python_type(value)


@as_constraint.register(Constraint)
def _(value: Constraint) -> Constraint:
    return value


@as_constraint.register(Mapping)
@as_constraint.register(bool)
def _(value: Any) -> Constraint:
    return json_schema(value)


@as_constraint.register(re.Pattern)
def _(value: re.Pattern[str]) -> Constraint:
    return regex(value)


@as_constraint.register(str)
@as_constraint.register(bytes)
def _(value: str | bytes) -> Constraint:
    raise InvalidConstraint(
        f"{shorten(repr(value))} could be a schema, a pattern or a choice",
        action="say which: json_schema(text), regex(pattern) or choice([text, ...])",
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
