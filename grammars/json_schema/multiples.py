"""Multiples of a number as regular expressions, where they have a small one."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm

from grammars import ir
from grammars.json_schema import numbers
from grammars.json_schema.numbers import Bounds

MAX_LISTED = 1_000
"""Most multiples that are written out one by one."""


def multiples_of(steps: tuple[Decimal, ...], bounds: Bounds, whole: bool) -> ir.Regex | None:
    """The numbers within bounds that are multiples of all the steps; None when no small expression is known.

    Args:
        steps: positive numbers.
        bounds: where the numbers lie.
        whole: integers only, written without a fraction.
    """
    step = _common([Fraction(value) for value in steps] + ([Fraction(1)] if whole else []))
    if step == 1:
        integers = numbers.integers(bounds)
        return (
            integers
            if whole
            else ir.concat(integers, ir.optional(ir.concat(ir.literal("."), ir.repeat(ir.literal("0"), 1))))
        )
    if bounds.low is not None and bounds.high is not None:
        first = -((-Fraction(bounds.low)) // step)
        last = Fraction(bounds.high) // step
        if last - first <= MAX_LISTED:
            values = [Fraction(n) * step for n in range(first, last + 1)]
            texts = [_text(value) for value in values if bounds.holds(_decimal(value))]
            return ir.union(*(text for text in texts))
    if bounds != numbers.UNBOUNDED:
        rest = multiples_of(steps, numbers.UNBOUNDED, whole)
        if rest is None:
            return None
        return ir.intersection(numbers.integers(bounds) if whole else numbers.numbers(bounds), rest)
    return _power_of_ten(step)


def _common(steps: list[Fraction]) -> Fraction:
    """The least number that is a multiple of all."""
    result = steps[0]
    for step in steps[1:]:
        result = Fraction(lcm(result.numerator, step.numerator), gcd(result.denominator, step.denominator))
    return result


def _decimal(value: Fraction) -> Decimal:
    """A fraction whose denominator divides a power of ten, exactly."""
    places = 0
    while 10**places % value.denominator:
        places += 1
    digits = value.numerator * (10**places // value.denominator)
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -places))


def _text(value: Fraction) -> ir.Regex:
    text = format(_decimal(value), "f")
    zeros = ir.repeat(ir.literal("0"))
    if "." in text:
        return ir.concat(ir.literal(text.rstrip("0")), zeros)
    return ir.literal(text)


def _power_of_ten(step: Fraction) -> ir.Regex | None:
    digit, zero, point = numbers.digit(0, 9), ir.literal("0"), ir.literal(".")
    whole = ir.union(zero, ir.concat(numbers.digit(1, 9), ir.repeat(digit)))
    places = 0
    if step > 1:
        while Fraction(10) ** places < step:
            places += 1
        if Fraction(10) ** places != step:
            return None
        tens = ir.concat(numbers.digit(1, 9), ir.repeat(digit), ir.repeat(zero, places, places))
        return ir.concat(ir.optional(ir.literal("-")), ir.union(zero, tens))
    while Fraction(1, 10**places) > step:
        places += 1
    if Fraction(1, 10**places) != step:
        return None
    fraction = ir.concat(
        point,
        ir.union(ir.repeat(digit, 1, places), ir.concat(ir.repeat(digit, places, places), ir.repeat(zero))),
    )
    return ir.concat(ir.optional(ir.literal("-")), whole, ir.optional(fraction))
