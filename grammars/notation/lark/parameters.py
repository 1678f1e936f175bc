"""Parametric rules: rules with a number of 64 bits, as llguidance has them.

``perm::_`` begins the definition of such a rule, ``perm::set_bit(0)`` calls it with a number that is made from the own one
(``_``), and ``%if bit_clear(0)`` behind an alternative says for which numbers it counts. A rule becomes one rule for each
number that is reached from the start.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from constrained.grammars.notation.source import MAX_DIGITS, GrammarSource

MASK = (1 << 64) - 1
_MAX_DEPTH = 50

Value = Callable[[int], int]
"""The number of a call, from that of the rule around it."""
Condition = Callable[[int], bool]
"""Whether an alternative counts for a number."""

_First = TypeVar("_First")
_Second = TypeVar("_Second")

_TOKEN = re.compile(r"[ \t]*(?P<token>[A-Za-z_][A-Za-z0-9_]*|0[xX][0-9a-fA-F]+|[0-9]+|[(),:\[\]])", re.ASCII)
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Bits:
    """The bits `low` up to and without `high` of a number."""

    low: int
    high: int

    @property
    def ones(self) -> int:
        """The number of which all bits are ones."""
        return (1 << (self.high - self.low)) - 1

    def of(self, number: int) -> int:
        """These bits of a number, as a number."""
        return number >> self.low & self.ones


class RuleNumberReader:
    """Reads what stands after ``::`` or ``%if``.

    Attributes:
        at: offset behind what was read.
        constant: whether no number of the rule around was used.
    """

    def __init__(self, source: GrammarSource, at: int) -> None:
        self.source = source
        self.at = at
        self.constant = True
        self._depth = 0

    def value(self) -> Value:
        """An expression for a number.

        Raises:
            InvalidConstraint: it is malformed.
        """
        token, at = self._take()
        if token[0].isdigit():
            number = self._number(token, at)
            return lambda _: number
        self.constant = False
        if token == "_":
            return lambda own: own
        if token in ("set_bit", "clear_bit"):
            bit = 1 << self._only(self._bit)
            return (lambda own: own | bit) if token == "set_bit" else (lambda own: own & ~bit)
        if token in ("bit_and", "bit_or"):
            operand = self._only(self._literal)
            return (lambda own: own & operand) if token == "bit_and" else (lambda own: own | operand)
        if token in ("incr", "decr"):
            bits = self._only(self._bits)
            last, step = (bits.ones, 1) if token == "incr" else (0, -1)
            return lambda own: own if bits.of(own) == last else own + (step << bits.low)
        return self.source.fail(
            "a number, _, or set_bit, clear_bit, bit_and, bit_or, incr or decr expected", at
        )

    def condition(self) -> Condition:
        """A condition.

        Raises:
            InvalidConstraint: it is malformed.
        """
        token, at = self._take()
        if token == "true":
            if self._peek() == "(":
                self._expect("(")
                self._expect(")")
            return lambda _: True
        if token in ("bit_clear", "bit_set"):
            place, wanted = self._only(self._bit), int(token == "bit_set")
            return lambda own: own >> place & 1 == wanted
        if token in ("is_ones", "is_zeros"):
            bits = self._only(self._bits)
            number = bits.ones if token == "is_ones" else 0
            return lambda own: bits.of(own) == number
        counted = token.removeprefix("bit_count_")
        if counted in _COMPARISONS:
            compare, bits, number = _COMPARISONS[counted], *self._pair(self._bits, self._literal)
            if counted == token:
                return lambda own: compare(bits.of(own), number)
            return lambda own: compare(bits.of(own).bit_count(), number)
        if token in ("and", "or", "not"):
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                self.source.fail("the condition is nested too deeply", at)
            parts = (
                (self._only(self.condition),)
                if token == "not"
                else self._pair(self.condition, self.condition)
            )
            self._depth -= 1
            if token == "not":
                return lambda own: not parts[0](own)
            joined = all if token == "and" else any
            return lambda own: joined(part(own) for part in parts)
        return self.source.fail(
            "a condition expected, such as bit_clear(0), lt([0:4], 3) or and(..., ...)", at
        )

    # ------------------------------------------------------------ parts

    def _only(self, read: Callable[[], _First]) -> _First:
        self._expect("(")
        found = read()
        self._expect(")")
        return found

    def _pair(self, first: Callable[[], _First], second: Callable[[], _Second]) -> tuple[_First, _Second]:
        self._expect("(")
        one = first()
        self._expect(",")
        two = second()
        self._expect(")")
        return one, two

    def _bits(self) -> Bits:
        token, at = self._take()
        if token == "_":
            return Bits(0, 64)
        if token != "[":
            self.source.fail("a range of bits expected, such as [0:4], or _", at)
        low = self._literal()
        self._expect(":")
        high = self._literal()
        self._expect("]")
        if not 0 <= low < high <= 64:
            self.source.fail("a range of bits is [x:y] with 0 <= x < y <= 64", at)
        return Bits(low, high)

    def _bit(self) -> int:
        before = self.at
        place = self._literal()
        if place > 63:
            self.source.fail("bits are numbered from 0 to 63", before)
        return place

    def _literal(self) -> int:
        token, at = self._take()
        if not token[0].isdigit():
            self.source.fail("a number expected", at)
        return self._number(token, at)

    def _number(self, token: str, at: int) -> int:
        digits = token[: MAX_DIGITS + 2]
        number = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
        if number > MASK or len(token) > len(digits):
            self.source.fail("a parameter has 64 bits", at)
        return number

    def _expect(self, wanted: str) -> None:
        token, at = self._take()
        if token != wanted:
            self.source.fail(f"{wanted} expected", at)

    def _peek(self) -> str:
        match = _TOKEN.match(self.source.text, self.at)
        return match["token"] if match else ""

    def _take(self) -> tuple[str, int]:
        match = _TOKEN.match(self.source.text, self.at)
        if match is None:
            self.source.fail("a number or a condition of a parametric rule expected", self.at)
        self.at = match.end()
        return match["token"], match.start("token")
