"""Durations as `timedelta` and pydantic read them: any units of ISO 8601 in their order, a sign, a fraction of the seconds."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.numbers import Bounds, integers
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex

_FEW, _FRACTION = "[0-9]{1,6}", r"(?:\.[0-9]{1,9})?"
_DAY = (
    r"(?:T(?:[01]?[0-9]|2[0-3])H(?:[0-5]?[0-9]M)?(?:[0-5]?[0-9](?:\.[0-9]{1,6})?S)?|T[0-5]?[0-9]M(?:[0-5]?[0-9](?:\.[0-9]{1,6})?S)?"
    r"|T(?:[0-9]{1,4}|[1-7][0-9]{4}|8[0-5][0-9]{3}|86[0-3][0-9]{2})(?:\.[0-9]{1,6})?S)?"
)
"""Less than a day."""


@cache
def durations() -> ir.Regex:
    """Texts of `datetime.timedelta`: up to six digits of each unit, and what serializers write of more than 2,700 years.

    Such a length is a number of days, or of years of 365 days and days. The longest that Python has are 999,999,999 days.
    """
    few = fragment_regex(
        f"[+-]?P(?:{_FEW}Y)?(?:{_FEW}M)?(?:{_FEW}W)?(?:{_FEW}D)?(?:T(?:{_FEW}H)?(?:{_FEW}M)?(?:{_FEW}{_FRACTION}S)?)?"
    )
    some = ir.difference(few, fragment_regex(".*[PT]"))
    sign, clock = fragment_regex("[+-]?P"), fragment_regex(_DAY)
    days = ir.concat(_between(1_000_000, 999_999_990), fragment_regex("D"))
    years = ir.concat(
        _between(1_000_000, 2_739_725),
        fragment_regex("Y(?:(?:[0-9]{1,2}|[12][0-9]{2}|3[0-5][0-9]|36[0-5])D)?"),
    )
    last = fragment_regex(
        f"[+]?P(?:99999999[1-9]D|2739726Y(?:[0-9]D)?){_DAY}|-P(?:99999999[1-8]D|2739726Y(?:[0-8]D)?){_DAY}|-P(?:999999999D|2739726Y9D)"
    )
    return ir.union(some, ir.concat(sign, ir.union(days, years), clock), last)


def _between(low: int, high: int) -> ir.Regex:
    return integers(Bounds(Decimal(low), high=Decimal(high)))
