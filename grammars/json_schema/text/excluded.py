"""What is left of scalars when values are taken out, in every spelling of them."""

from __future__ import annotations

from decimal import Decimal

from grammars import ir
from grammars.json_schema.text import numbers

_ZEROS = ir.repeat(ir.literal("0"))
_POINT_ZEROS = ir.concat(ir.literal("."), ir.literal("0"), _ZEROS)
_DIGITS = ir.repeat(numbers.digit(0, 9), 1)

NUMBER_WITHOUT_EXPONENT = ir.concat(numbers.ANY_INTEGER, ir.optional(ir.concat(ir.literal("."), _DIGITS)))
"""Numbers without exponent: which values a number with one equals is not regular."""
INTEGRAL_NUMBER = ir.concat(numbers.ANY_INTEGER, ir.optional(_POINT_ZEROS))
"""Numbers without exponent whose value is an integer."""


def decimal_spellings(value: Decimal) -> ir.Regex:
    """A number in every spelling without exponent."""
    sign, text = ("-", format(-value, "f")) if value < 0 else ("", format(value, "f"))
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    minus = ir.optional(ir.literal("-")) if value == 0 else ir.literal(sign)
    if not fraction:
        return ir.concat(minus, ir.literal(whole), ir.optional(_POINT_ZEROS))
    return ir.concat(minus, ir.literal(f"{whole}.{fraction}"), _ZEROS)


def exclude_numbers(regex: ir.Regex, without: list[ir.Regex]) -> ir.Regex:
    """Numbers of a language that are in none of some others, without exponent."""
    return ir.difference(ir.intersection(regex, NUMBER_WITHOUT_EXPONENT), ir.union(*without))
