"""Numbers as readers have them: a text with a fraction or an exponent becomes the nearest 64-bit float, as `json.loads` reads it.

Keywords are decided on decimals, and so are the languages of `constrained.grammars.json_schema.text.numbers`. Where the float may be on the
other side of what a keyword says (``0.99999999999999999999`` is 1.0), a language of this module leaves such texts out. Two decimals of at most
15 significant digits are two floats.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.numbers import (
    ANY_INTEGER,
    Bounds,
    decimal_spellings,
    digit,
    numbers_between,
)

DIGITS = 15
"""Significant digits of decimals that are different floats whenever they differ."""
MOST_EXACT = 2**53
"""Integers up to this one are floats."""
_ZERO, _ANY, _POINT = ir.literal("0"), digit(0, 9), ir.literal(".")
_SIGN = ir.optional(ir.literal("-"))
_ZEROS = ir.repeat(_ZERO)
TINY = ir.concat(_SIGN, _ZERO, _POINT, ir.repeat(_ZERO, 323, 323), ir.repeat(_ANY))
"""What is read as zero, or is the least float."""


def float_bounds(bounds: Bounds) -> Bounds:
    """The interval of the decimals whose floats are within bounds.

    A bound that excludes itself becomes the next float; one that is a longer integer than a float has the next float within. Above or
    below zero is a matter of exponents, see `constrained.grammars.json_schema.text.numbers`.
    """
    low, high = bounds.low, bounds.high
    if low is not None and (found := _within(low, bounds.low_exclusive, math.inf)) != low:
        bounds = replace(bounds, low=found, low_exclusive=False)
    if high is not None and (found := _within(high, bounds.high_exclusive, -math.inf)) != high:
        bounds = replace(bounds, high=found, high_exclusive=False)
    return bounds


def _within(bound: Decimal, exclusive: bool, direction: float) -> Decimal:
    """The first float within a bound, or the bound if it says the same."""
    nearest = float(bound)
    if not bound or math.isinf(nearest):
        return bound
    if abs(bound) <= MOST_EXACT or Decimal(repr(nearest)) == bound:
        return Decimal(repr(math.nextafter(nearest, direction))) if exclusive else bound
    while (Decimal(nearest) - bound) * int(math.copysign(1, direction)) < exclusive:
        nearest = math.nextafter(nearest, direction)
    return Decimal(nearest)


@cache
def few_digits() -> ir.Regex:
    """Integers, and numbers of at most `DIGITS` significant digits without an exponent: different texts are different floats."""
    parts = [ir.concat(_ZERO, _POINT, _ZEROS, ir.repeat(_ANY, 1, DIGITS), _ZEROS)]
    for size in range(1, DIGITS):
        whole = ir.concat(digit(1, 9), ir.repeat(_ANY, size - 1, size - 1))
        parts.append(ir.concat(whole, _POINT, ir.repeat(_ANY, 1, DIGITS - size), _ZEROS))
    return ir.union(ANY_INTEGER, ir.concat(_SIGN, ir.union(*parts)))


@cache
def apart(places: int) -> ir.Regex:
    """Numbers without an exponent whose floats have a digit other than zero after so many decimal places.

    Of the 16 digits that tell floats apart, those after these places are neither all zeros nor all nines.
    """
    parts = []
    for size in range(DIGITS + 1 - places):
        whole = ir.concat(digit(1, 9), ir.repeat(_ANY, size - 1, size - 1)) if size else _ZERO
        known = DIGITS + 1 - size - places
        zeros = known if size or places else 323  # below one, floats have as many zeros
        runs = [
            ir.concat(ir.repeat(digit(same, same), count, count), ir.repeat(_ANY))
            for same, count in ((0, zeros), (9, known))
        ]
        fraction = ir.difference(ir.repeat(_ANY, 1), ir.union(ir.repeat(_ZERO, 1), *runs))
        parts.append(ir.concat(whole, _POINT, ir.repeat(_ANY, places, places), fraction))
    return ir.concat(_SIGN, ir.union(*parts))


def spellings(value: Decimal) -> ir.Regex:
    """The texts without exponent that are read as a number."""
    nearest = float(value)
    if not value:
        return ir.union(decimal_spellings(value), TINY)
    if math.isinf(nearest) or abs(value) > MOST_EXACT:
        return decimal_spellings(value)
    low, high = (Decimal(repr(math.nextafter(nearest, way))) for way in (-math.inf, math.inf))
    return numbers_between(Bounds(low, True, high, True))
