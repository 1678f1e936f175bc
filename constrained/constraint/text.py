"""Constraints whose texts are not JSON: a pattern, or a list of values."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from constrained.constraint.base import Constraint, digest, shorten
from constrained.constraint.coerce import as_constraint
from constrained.errors import InvalidConstraint, Problem, RejectedValue, UnsatisfiableConstraint

if TYPE_CHECKING:
    from constrained.grammars.ir import Grammar

_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x", re.ASCII: "a"}


@dataclass(frozen=True, eq=False, repr=False)
class _RegexConstraint(Constraint):
    """Text that a pattern matches as a whole; the value is the text."""

    pattern: str
    dialect: Literal["python", "ecma", "rust"]
    flags: str

    @cached_property
    def key(self) -> str:
        return digest("regex", self.pattern, self.dialect, self.flags)

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars import ir
        from constrained.grammars.regex import parse

        return ir.Grammar.of(parse(self.pattern, dialect=self.dialect, flags=self.flags))

    def parse(self, text: str) -> str:
        return text

    def render(self) -> str:
        return f"text that matches {shorten(self.pattern)}"

    def __repr__(self) -> str:
        flags = f", flags={self.flags!r}" if self.flags else ""
        dialect = f", dialect={self.dialect!r}" if self.dialect != "python" else ""
        return f"regex({shorten(repr(self.pattern))}{dialect}{flags})"


@as_constraint.register(re.Pattern)
def regex(
    pattern: str | re.Pattern[str], *, dialect: Literal["python", "ecma", "rust"] = "python", flags: str = ""
) -> Constraint:
    """Text that a regular expression matches as a whole; the value is the text.

    Args:
        pattern: the expression, or a compiled one of `re`, which brings its flags along.
        dialect: how to read it: as Python's `re`, as JavaScript (the dialect of JSON Schema), or as Rust's `regex`.
        flags: any of `i` (ignore case), `m` (multi-line), `s` (dot matches all), `x` (verbose), `a` (ASCII classes).

    Raises:
        InvalidConstraint: not a text pattern, or an unknown flag. Mistakes inside the pattern are found when
            it is compiled.
    """
    if isinstance(pattern, re.Pattern):
        flags += "".join(
            letter for flag, letter in _FLAGS.items() if pattern.flags & flag and letter not in flags
        )
        pattern = pattern.pattern
    if not isinstance(pattern, str):
        raise InvalidConstraint(
            f"a regex is a str, not {type(pattern).__name__}", action="write the pattern as text, not bytes"
        )
    unknown = sorted(set(flags) - set(_FLAGS.values()))
    if unknown:
        raise InvalidConstraint(f"unknown regex flag {unknown[0]!r}", action="use letters out of 'imsxa'")
    return _RegexConstraint(pattern, dialect, "".join(sorted(set(flags))))


@dataclass(frozen=True, eq=False, repr=False)
class _ChoiceConstraint(Constraint):
    """One of several texts, each standing for a value."""

    _values: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        return digest("choice", *sorted(self._values))

    @cached_property
    def schema(self) -> Any:
        return {"enum": [_plain(value) for value in self._values.values()]}

    @cached_property
    def grammar(self) -> Grammar:
        from constrained.grammars import ir

        return ir.Grammar.of(ir.union(*(ir.literal(text) for text in self._values)))

    def parse(self, text: str) -> Any:
        if text not in self._values:
            raise RejectedValue(f"the text is not one of {self.render()}", text=text)
        return self._values[text]

    def render(self) -> str:
        return f"{len(self._values)} choices: {shorten(', '.join(self._values))}"

    def __repr__(self) -> str:
        return f"choice([{shorten(', '.join(map(repr, self._values.values())))}])"

    @property
    def _meaning(self) -> Any:
        return self._values  # 1 == True in Python: the texts, which are the key, tell them apart


def choice(values: Any, *more: Any) -> Constraint:
    """One of several values, as bare text: a string is generated without quotes.

    Args:
        values: strings, which stand for themselves; other JSON values, which are written as JSON
            (`3`, `true`, `null`, `{"a": 1}`); enum members, which are written as their value and returned as
            members (an `Enum` class is the list of its members). The same value twice counts once.
        more: further values, where they are passed one by one: ``choice("yes", "no")``.

    Raises:
        UnsatisfiableConstraint: no values.
        InvalidConstraint: a value that is not JSON, or two values that are the same text (`1` and `"1"`).
    """
    if more:
        values = (values, *more)
    if isinstance(values, (str, bytes, Mapping)):
        raise InvalidConstraint(
            f"choice takes a list of values, not one {type(values).__name__}", action="write choice([...])"
        )
    if not isinstance(values, Iterable):
        raise InvalidConstraint(
            f"choice takes a list of values, not a {type(values).__name__}", action="write choice([...])"
        )
    texts: dict[str, Any] = {}
    for index, value in enumerate(values):
        text = _text_of(value, index)
        if text in texts and _digest_of(texts[text]) != _digest_of(value):
            raise InvalidConstraint(
                "two choices have equal text",
                Problem(f"choice {index}", f"has the text of the choice {texts[text]!r}", value),
                action="remove one of them",
            )
        texts.setdefault(text, value)
    if not texts:
        raise UnsatisfiableConstraint("choice() needs at least one value", action="pass a non-empty list")
    return _ChoiceConstraint(texts)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _digest_of(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def _text_of(value: Any, index: int) -> str:
    plain = _plain(value)
    try:
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, allow_nan=False)
        str(text).encode()
    except (TypeError, ValueError) as error:
        raise InvalidConstraint(
            "a choice is not a JSON value",
            Problem(f"choice {index}", str(error), repr(value)),
            action="use str, int, float, bool, None, or lists and dicts of them",
        ) from None
    return str(text)
