"""Number ranges and excluded numbers as regular languages, exact in decimal.

Integers have no fraction and no exponent: ``-?(0|[1-9][0-9]*)``. Other numbers may have a fraction; an exponent is
allowed only where no bound except zero applies, because a bound on numbers with a free exponent is not a regular
language. Every number within bounds can be written without an exponent. Zero may have a minus sign.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex

_MINUS, _ZERO, _POINT = ir.Literal(b"-"), ir.Literal(b"0"), ir.Literal(b".")


def digit(low: int, high: int) -> ir.Regex:
    """One decimal digit from `low` to `high`; the empty language when the range is empty."""
    return ir.chars([(0x30 + low, 0x30 + high)]) if low <= high else ir.EMPTY_SET


_D, _D19 = digit(0, 9), digit(1, 9)
_ZEROS, _DIGITS = ir.repeat(_ZERO), ir.repeat(_D)
_WHOLE = ir.union(_ZERO, ir.concat(_D19, _DIGITS))
_FRACTION = ir.concat(_POINT, ir.repeat(_D, 1))
_EXPONENT = ir.concat(
    ir.chars([(0x45, 0x45), (0x65, 0x65)]),
    ir.optional(ir.chars([(0x2B, 0x2B), (0x2D, 0x2D)])),
    ir.repeat(_D, 1),
)
_TAIL = ir.concat(ir.optional(_FRACTION), ir.optional(_EXPONENT))
_SIGN = ir.optional(_MINUS)

ANY_INTEGER = ir.concat(_SIGN, _WHOLE)
"""Any integer."""
ANY_NUMBER = ir.concat(_SIGN, _WHOLE, _TAIL)
"""Any number."""
DECIMAL_NOTATION = ir.concat(_SIGN, _WHOLE, ir.optional(_FRACTION))
"""Any number, written without an exponent."""
DECIMAL_CHARACTERS = ir.repeat(ir.chars([(0x2D, 0x2E), (0x30, 0x39)]))
"""Any text of minus signs, points and digits."""
_ABOVE_ZERO = fragment_regex(
    r"[1-9][0-9]*(?:\.[0-9]+)?(?:[eE](?:\+?[0-9]+|-0*(?:[0-9]{1,2}|[12][0-9]{2}|3[01][0-9]|32[0-3])))?"
    r"|[5-9](?:\.[0-9]+)?[eE]-324|0\.0{0,322}[1-9][0-9]*"
    r"|0\.0{0,99}[1-9][0-9]*[eE](?:\+?[0-9]+|-1?[0-9]{1,2})"
)
"""Above zero, and not so little that its float is zero."""
_NO_FRACTION = ir.optional(ir.concat(_POINT, ir.repeat(_ZERO, 1)))
_IS_ZERO = ir.concat(_ZERO, _NO_FRACTION, ir.optional(_EXPONENT))
_ZERO_VALUE = Decimal(0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of numbers; None means no bound."""

    low: Decimal | None = None
    low_exclusive: bool = False
    high: Decimal | None = None
    high_exclusive: bool = False

    def __str__(self) -> str:
        low = f"{'above' if self.low_exclusive else 'at least'} {self.low}"
        high = f"{'below' if self.high_exclusive else 'at most'} {self.high}"
        return " and ".join([low] * (self.low is not None) + [high] * (self.high is not None))

    def intersect_bounds(self, other: Bounds) -> Bounds:
        """The intersection of two intervals."""
        low, low_strict, high, high_strict = self.low, self.low_exclusive, self.high, self.high_exclusive
        if other.low is not None and (low is None or (other.low, other.low_exclusive) > (low, low_strict)):
            low, low_strict = other.low, other.low_exclusive
        if other.high is not None and (
            high is None or _below(other.high, other.high_exclusive, high, high_strict)
        ):
            high, high_strict = other.high, other.high_exclusive
        return Bounds(low, low_strict, high, high_strict)

    def contains_number(self, value: Decimal) -> bool:
        """Whether a number lies within."""
        if self.low is not None and (value < self.low or (self.low_exclusive and value == self.low)):
            return False
        return self.high is None or value < self.high or (value == self.high and not self.high_exclusive)

    def empty(self) -> bool:
        """Whether no number lies within."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_exclusive or self.high_exclusive))

    def integers(self) -> tuple[int | None, int | None]:
        """Least and greatest integer within; the first exceeds the second when there is none."""
        low = None if self.low is None else int(self.low.to_integral_value(ROUND_CEILING))
        high = None if self.high is None else int(self.high.to_integral_value(ROUND_FLOOR))
        if low is not None and self.low_exclusive and low == self.low:
            low += 1
        if high is not None and self.high_exclusive and high == self.high:
            high -= 1
        return low, high


UNBOUNDED = Bounds()


def _below(high: Decimal, strict: bool, other: Decimal, other_strict: bool) -> bool:
    return high < other or (high == other and strict and not other_strict)


def decimal(value: int | float | Decimal) -> Decimal:
    """The exact decimal value of a JSON number."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


# ---------------------------------------------------------------- integers


def _whole_between(low: int, high: int | None) -> ir.Regex:
    """Non-negative integers from `low` to `high` (no upper bound when None), without leading zeros."""
    if high is not None and low > high:
        return ir.EMPTY_SET
    if low == 0 and high is None:
        return _WHOLE
    options: list[ir.Regex] = []
    first = str(low)
    if high is None:
        options.append(_same_length(first, "9" * len(first)))
        options.append(ir.concat(_D19, ir.repeat(_D, len(first))))
        return ir.union(*options)
    last = str(high)
    if len(first) == len(last):
        return _same_length(first, last)
    options.append(_same_length(first, "9" * len(first)))
    if len(last) - len(first) > 1:
        options.append(ir.concat(_D19, ir.repeat(_D, len(first), len(last) - 2)))
    options.append(_same_length("1" + "0" * (len(last) - 1), last))
    return ir.union(*options)


def digit_ranges(low: str, high: str) -> Iterator[tuple[str, int, int, int]]:
    """Digit strings of equal length between two others: a prefix, the least and greatest next digit, the number of free digits after it."""
    size = len(low)
    if low == high:
        yield low[:-1], int(low[-1]), int(low[-1]), 0
        return
    shared = 0
    while low[shared] == high[shared]:
        shared += 1
    # Where only zeros (or nines) are left in the bound, all following digits are free.
    down = max(len(low.rstrip("0")), shared + 1)
    up = max(len(high.rstrip("9")), shared + 1)
    yield low[: down - 1], int(low[down - 1]), int(low[down - 1]), size - down
    for at in range(shared + 1, down):
        yield low[:at], int(low[at]) + 1, 9, size - at - 1
    yield low[:shared], int(low[shared]) + 1, int(high[shared]) - 1, size - shared - 1
    for at in range(shared + 1, up):
        yield high[:at], 0, int(high[at]) - 1, size - at - 1
    yield high[: up - 1], int(high[up - 1]), int(high[up - 1]), size - up


def _same_length(low: str, high: str) -> ir.Regex:
    """Digit strings between two of equal length (``low <= high``)."""
    return ir.union(
        *(
            ir.concat(ir.literal(prefix), digit(least, most), ir.repeat(_D, free, free))
            for prefix, least, most, free in digit_ranges(low, high)
        )
    )


def integers(bounds: Bounds) -> ir.Regex:
    """The integers within bounds."""
    low, high = bounds.integers()
    if low is None and high is None:
        return ANY_INTEGER
    above = _whole_between(max(low or 0, 0), high) if high is None or high >= 0 else ir.EMPTY_SET
    if low is not None and low > 0:
        return above
    least = 0 if high is None or high >= 0 else -high
    below = _whole_between(least, None if low is None else -low)
    return ir.union(above, ir.concat(_MINUS, below))


# ---------------------------------------------------------------- numbers with fractions


def _from_fraction(low: str, strict: bool) -> tuple[bool, ir.Regex]:
    """Fractions of at least ``0.low`` (above it if `strict`): whether an absent fraction is one, and their digits."""
    low = low.rstrip("0")
    if not low and not strict:
        return True, ir.repeat(_D, 1)
    result = ir.concat(_ZEROS, _D19, _DIGITS) if strict else _DIGITS
    for char in reversed(low):
        result = ir.union(ir.concat(ir.literal(char), result), ir.concat(digit(int(char) + 1, 9), _DIGITS))
    return False, result


def _to_fraction(high: str, strict: bool) -> tuple[bool, ir.Regex]:
    """Fractions of at most ``0.high`` (below it if `strict`), as `_from_fraction`."""
    high = high.rstrip("0")
    if not high:
        return (False, ir.EMPTY_SET) if strict else (True, ir.repeat(_ZERO, 1))
    rest: ir.Regex = ir.EMPTY_SET if strict else _ZEROS
    some: ir.Regex = ir.EMPTY_SET
    for char in reversed(high):
        some = ir.union(ir.concat(ir.literal(char), rest), ir.concat(digit(0, int(char) - 1), _DIGITS))
        rest = ir.union(ir.EMPTY_STRING, some)  # a shorter fraction is a smaller one
    return True, some


def _with_fraction(whole: int, fraction: tuple[bool, ir.Regex]) -> ir.Regex:
    none, digits = fraction
    decimals = ir.concat(_POINT, digits)
    return ir.concat(ir.literal(str(whole)), ir.optional(decimals) if none else decimals)


def _magnitudes(low: Decimal, low_strict: bool, high: Decimal | None, high_strict: bool) -> ir.Regex:
    """Numbers without sign and exponent between two non-negative bounds."""
    first, low_digits = _split(low)
    above = _from_fraction(low_digits, low_strict)
    if high is None:
        return ir.union(
            _with_fraction(first, above),
            ir.concat(_whole_between(first + 1, None), ir.optional(_FRACTION)),
        )
    last, high_digits = _split(high)
    below = _to_fraction(high_digits, high_strict)
    if first == last:
        return _with_fraction(first, (above[0] and below[0], ir.intersection(above[1], below[1])))
    return ir.union(
        _with_fraction(first, above),
        ir.concat(_whole_between(first + 1, last - 1), ir.optional(_FRACTION)),
        _with_fraction(last, below),
    )


def _split(value: Decimal) -> tuple[int, str]:
    """Integer part and fraction digits of a non-negative decimal."""
    whole, _, fraction = format(value, "f").partition(".")
    return int(whole), fraction


def numbers_between(bounds: Bounds) -> ir.Regex:
    """The numbers within bounds, integers included."""
    low, high = bounds.low, bounds.high
    if low is None and high is None:
        return ANY_NUMBER
    if high is None and low == 0:
        if bounds.low_exclusive:
            return _ABOVE_ZERO
        return ir.union(ir.concat(_WHOLE, _TAIL), ir.concat(_MINUS, _IS_ZERO))
    if low is None and high == 0:
        below = ir.concat(_MINUS, _ABOVE_ZERO)
        return below if bounds.high_exclusive else ir.union(below, ir.concat(_SIGN, _IS_ZERO))
    options: list[ir.Regex] = []
    if high is None or high >= 0:
        if low is not None and low >= 0:
            options.append(_magnitudes(low, bounds.low_exclusive, high, bounds.high_exclusive))
        else:
            options.append(_magnitudes(_ZERO_VALUE, False, high, bounds.high_exclusive))
    if low is None or low < 0:
        limit = None if low is None else low.copy_negate()
        if high is not None and high <= 0:
            magnitudes = _magnitudes(high.copy_negate(), bounds.high_exclusive, limit, bounds.low_exclusive)
        else:
            magnitudes = _magnitudes(_ZERO_VALUE, False, limit, bounds.low_exclusive)
        options.append(ir.concat(_MINUS, magnitudes))
    elif low == 0 and not bounds.low_exclusive and (high or not bounds.high_exclusive):
        options.append(ir.concat(_MINUS, _ZERO, _NO_FRACTION))
    return ir.union(*options)


# ---------------------------------------------------------------- bounded digits


@cache
def with_digits(whole: int, places: int | None) -> ir.Regex:
    """Numbers of at most `whole` digits before the point and `places` after it; None: integers.

    Exponents are up to 199, and what floats have beyond after one digit, as `repr` writes them.
    """
    integer = ir.concat(_SIGN, ir.union(_ZERO, ir.concat(_D19, ir.repeat(_D, 0, whole - 1))))
    if places is None:
        return integer
    fraction = ir.concat(_POINT, ir.repeat(_D, 1, places))
    sign = ir.optional(ir.chars([(0x2B, 0x2B), (0x2D, 0x2D)]))
    size = ir.concat(ir.optional(ir.Literal(b"1")), ir.repeat(_D, 1, 2))
    exponent = ir.concat(ir.chars([(0x45, 0x45), (0x65, 0x65)]), sign, size)
    few = ir.concat(_D19, ir.optional(fraction))
    most = ir.intersection(
        few, numbers_between(Bounds(Decimal(1), high=Decimal(repr(sys.float_info.max / 1e308))))
    )
    beyond = ir.union(
        ir.concat(few, fragment_regex("[eE](?:[+-]?(?:2[0-9]{2}|30[0-7])|-3(?:0[89]|1[0-9]|2[0-4]))")),
        ir.concat(most, fragment_regex("[eE][+]?308")),
    )
    usual = ir.concat(integer, ir.optional(fraction), ir.optional(exponent))
    return ir.union(usual, ir.concat(_SIGN, beyond))


def digits_needed(bounds: Bounds, divisors: Sequence[Decimal], most: int) -> tuple[int, int]:
    """Digits before and after the point: `most`, or as many as bounds and divisors need."""
    values = [value for value in (bounds.low, bounds.high, *divisors) if value is not None]
    split = [_split(abs(value)) for value in values]
    whole = [len(str(number)) + 1 for number, _ in split]
    return max(most, *whole, 1), max(most, *(len(digits) + 1 for _, digits in split), 1)


# ---------------------------------------------------------------- excluded numbers


def decimal_spellings(value: Decimal) -> ir.Regex:
    """Every text without exponent of one number."""
    whole, _, fraction = format(abs(value), "f").partition(".")
    fraction = fraction.rstrip("0")
    sign = _SIGN if value == 0 else _MINUS if value < 0 else ir.EMPTY_STRING
    if fraction:
        return ir.concat(sign, ir.literal(f"{whole}.{fraction}"), _ZEROS)
    return ir.concat(sign, ir.literal(whole), _NO_FRACTION)


def exclude_numbers(regex: ir.Regex, excluded: list[ir.Regex]) -> ir.Regex:
    """Numbers of a language, without exponent, that are in none of the excluded languages.

    The texts with an exponent that equal a given number are not a regular language (the exponent counts zeros), so
    exponents are left out.
    """
    return ir.difference(ir.intersection(regex, DECIMAL_NOTATION), ir.union(*excluded))
