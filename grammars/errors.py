"""Errors of constraints, and the base class of all errors of the package (`ConstrainedError`).

    ConstraintError (ValueError)
    ├── InvalidConstraint          malformed JSON Schema, regex or grammar
    ├── UnsupportedConstraint      is valid, but cannot be enforced
    └── UnsatisfiableConstraint    can be enforced, but no completion satisfies it
    ConstraintTooLarge (RuntimeError)   a limit was exceeded while compiling it

Every error has a list of `Problem`, each with its place (a JSON Pointer, or line and column), the value there and the
reason, and a next step. All messages have one form.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class _Missing(enum.Enum):
    """The type of `MISSING`: a member of an enumeration is the same object in other processes too."""

    MISSING = "missing"


MISSING: Any = _Missing.MISSING
_VALUE_LIMIT = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a constraint.

    Attributes:
        place: JSON Pointer as a URI fragment (``#/properties/age``), ``line 3, column 7``, or a position in a regex.
        reason: why it cannot be used, briefly.
        value: the offending value (``MISSING`` when there is none to show).
        keyword: the keyword or operator concerned, when there is one.
        excerpt: lines of source with a caret under the place, for text notations.
    """

    place: str
    reason: str
    value: Any = MISSING
    keyword: str | None = None
    excerpt: str | None = None

    def __str__(self) -> str:
        value_text = f": {_shorten(self.value)}" if self.value is not MISSING else ""
        line = f"{self.place}{value_text}     {self.reason}"
        if self.excerpt:
            line += "\n" + "\n".join("    " + text for text in self.excerpt.splitlines())
        return line


def _shorten(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    except RecursionError:
        text = "(nested very deeply)"
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 3] + "..."


def _message(summary: str, problems: tuple[Problem, ...], action: str | None) -> str:
    lines = [summary]
    lines += ["  " + line for problem in problems for line in str(problem).splitlines()]
    if action:
        lines.append(f"  -> {action}")
    return "\n".join(lines)


class ConstrainedError(Exception):
    """Base class of all errors of this package: a summary, problems, and a next step.

    Subclasses also derive from the built-in exception that fits.

    Attributes:
        summary: what is wrong, in one line.
        problems: the places that cause the error.
        action: the next step for the user, or None.
        extra_fields: names of the keyword arguments that a subclass adds, each an attribute.
    """

    extra_fields: tuple[str, ...] = ()

    def __init__(
        self, summary: str, problems: Iterable[Problem] | Problem = (), *, action: str | None = None
    ) -> None:
        self.summary = summary
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.action = action
        super().__init__(_message(summary, self.problems, action))

    def reword(
        self, *, summary: str | None = None, problems: Iterable[Problem] = (), action: str | None = None
    ) -> None:
        """Replaces the summary, the problems or the next step, for a caller who knows more about the place."""
        self.summary = self.summary if summary is None else summary
        self.problems = tuple(problems) or self.problems
        self.action = self.action if action is None else action
        self.args = (_message(self.summary, self.problems, self.action),)

    def __reduce__(self) -> tuple[Any, ...]:
        named = {name: getattr(self, name) for name in ("action", *self.extra_fields)}
        return _rebuild, (type(self), self.summary, self.problems, named)


def _rebuild(
    kind: type[ConstrainedError], summary: str, problems: tuple[Problem, ...], named: dict[str, Any]
) -> ConstrainedError:
    return kind(summary, problems, **named)


class ConstraintError(ConstrainedError, ValueError):
    """A constraint cannot be used."""


class InvalidConstraint(ConstraintError):
    """The constraint is malformed: not a valid schema, regex or grammar."""


class UnsupportedConstraint(ConstraintError):
    """The constraint has a part that cannot be enforced."""


class UnsatisfiableConstraint(ConstraintError):
    """No completion satisfies the constraint."""


class ConstraintTooLarge(ConstrainedError, RuntimeError):
    """A limit was exceeded while compiling the constraint; the problem names the expensive part."""
