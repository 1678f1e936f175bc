"""The text of a grammar: the places in it, and the errors that point at them."""

from __future__ import annotations

from typing import NoReturn

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem, UnsupportedConstraint

_EXCERPT = 80
MAX_DIGITS = 20
"""Digits of a count or a code point that are read: more than any value needs, few enough that int() is fast."""

MAX_NESTING = 5_000
"""Greatest depth of brackets in brackets. Nothing recurses over them, but a parser takes seconds for a hundred thousand."""


class GrammarSource:
    """The text of a grammar in some notation.

    Attributes:
        text: the whole text.
        notation: its name in messages.
    """

    def __init__(self, text: str, notation: str) -> None:
        self.text = text
        self.notation = notation

    def problem(self, reason: str, at: int) -> Problem:
        """A problem at an offset, with the line and a caret under the place."""
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:].split("\n", 1)[0].rstrip("\r")
        column = at - start
        left = max(0, column - _EXCERPT // 2)
        line_text = "".join(c if c.isprintable() else " " for c in line[left : left + _EXCERPT])
        number = self.text.count("\n", 0, at) + 1
        excerpt = f"{line_text}\n{' ' * (column - left)}^"
        return Problem(f"line {number}, column {column + 1}", reason, excerpt=excerpt)

    def fail(self, reason: str, at: int, action: str | None = None) -> NoReturn:
        """Raises `InvalidConstraint` for a malformed grammar."""
        raise InvalidConstraint(
            f"the {self.notation} grammar is malformed", self.problem(reason, at), action=action
        )

    def refuse(self, reason: str, at: int, action: str | None = None) -> NoReturn:
        """Raises `UnsupportedConstraint` for what is well-formed but cannot be enforced."""
        raise UnsupportedConstraint(
            f"the {self.notation} grammar cannot be enforced", self.problem(reason, at), action=action
        )

    def too_deep(self, at: int) -> NoReturn:
        """Raises `ConstraintTooLarge` for the bracket that is one too many inside of others."""
        problem = self.problem(f"brackets are nested more than {MAX_NESTING:,} deep", at)
        raise ConstraintTooLarge(f"the {self.notation} grammar is too large", problem)

    def code_point(self, digits: str, at: int) -> str:
        """The character of a code point in hexadecimal."""
        code = int(digits[:MAX_DIGITS], 16)
        if code > ir.MAX_CODE_POINT or len(digits) > MAX_DIGITS:
            self.fail("no such character: code points end at 10FFFF", at)
        if 0xD800 <= code <= 0xDFFF:
            self.fail("half of a surrogate pair is not a character; write the code point itself", at)
        return chr(code)
