"""Dates and times as `datetime` and pydantic read them: with or without an offset, seconds optional, within bounds; durations.

Bounds compare as pydantic does: instants where both sides have an offset, wall clocks otherwise.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import cache, lru_cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.numbers import Bounds, integers
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex
from constrained.grammars.json_schema.text.rfc.times import date
from constrained.grammars.text.quantities import MONTHS

_FRACTION = r"(?:\.[0-9]{1,9})?"
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_OFFSETS = range(-12 * 60, 14 * 60 + 1, 15)
"""Minutes: the offsets in use, which are whole quarters of an hour."""


@cache
def _clock() -> ir.Regex:
    return fragment_regex(f"{_HOUR}:{_MINUTE}(?::{_MINUTE}{_FRACTION})?")


@lru_cache(64)
def _zone(zone: str) -> ir.Regex:
    """What follows the clock; `zone` is ``"aware"``, ``"naive"`` or ``"any"``."""
    if zone == "naive":
        return ir.EMPTY_STRING
    offset = fragment_regex(f"[Zz]|[+-]{_HOUR}:?{_MINUTE}")
    return offset if zone == "aware" else ir.optional(offset)


def times_of_day(zone: str = "any", written: bool = False) -> ir.Regex:
    """Texts of `datetime.time`; `written`: where it needs no offset, also as people write them."""
    iso = ir.concat(_clock(), _zone(zone))
    return ir.union(iso, written_times()) if written and zone != "aware" else iso


def dates(low: str | None = None, high: str | None = None, written: bool = False) -> ir.Regex:
    """Texts of `datetime.date` between two days, inclusive (ISO 8601; None: no bound).

    Args:
        low: the first day.
        high: the last day.
        written: without bounds, also what people write and `constrained.grammars.text.quantities.read_date` reads, of the years
            1000 to 2999.
    """
    if written and low is None and high is None:
        return ir.union(ir.intersection(date(), fragment_regex("[12][0-9-]*")), written_dates())
    parts = [date()]
    for bound, above in ((low, True), (high, False)):
        if bound is not None:
            parts.append(_in_order(dt.date.fromisoformat(bound).isoformat(), above=above))
    return ir.intersection(*parts)


@cache
def written_dates() -> ir.Regex:
    """Dates as people write them: ``8 September 2001``, ``September 8, 2001``, ``8. 9. 2001``, ``13/9/2001``."""
    leap = "(?:[12][0-9](?:0[48]|[2468][048]|[13579][26])|(?:1[26]|2[048])00)"
    any_year = "[12][0-9]{3}"
    months: dict[int, list[str]] = {}
    for name, number in MONTHS.items():
        months.setdefault(number, []).append(f"[{name[0].upper()}{name[0]}]{name[1:]}")
    parts = []
    for days, numbers, year in (
        ("0?[1-9]|[12][0-9]|3[01]", (1, 3, 5, 7, 8, 10, 12), any_year),
        ("0?[1-9]|[12][0-9]|30", (4, 6, 9, 11), any_year),
        ("0?[1-9]|1[0-9]|2[0-8]", (2,), any_year),
        ("29", (2,), leap),
    ):
        names = "|".join(name for number in numbers for name in months[number])
        figures = "|".join(f"0?{number}" if number < 10 else str(number) for number in numbers)
        past_twelve = "|".join(str(day) for day in range(13, 32) if re.fullmatch(days, str(day)))
        parts += [
            rf"(?:{days})(?:st|nd|rd|th|er|\.)? (?:of |de )?(?:{names})(?: de |,? ){year}",
            rf"(?:{names}) (?:{days})(?:st|nd|rd|th)?,? {year}",
            rf"(?:{days})\. ?(?:{figures})\. ?{year}",
            rf"(?:{past_twelve})/(?:{figures})/{year}",
            rf"(?:{figures})/(?:{past_twelve})/{year}",
        ]
    return ir.union(*map(fragment_regex, parts))


@cache
def written_times() -> ir.Regex:
    """Times of day as people write them and `constrained.grammars.text.quantities.read_time` reads: ``2:30 pm``, ``9 a.m.``, ``9.15``."""
    half = r" ?(?:[ap]m|[AP]M|[ap]\.m\.)"
    return fragment_regex(rf"(?:0?[1-9]|1[0-2])(?:[:.]{_MINUTE})?{half}|(?:[01]?[0-9]|2[0-3])[:.h]{_MINUTE}")


@cache
def written_datetimes() -> ir.Regex:
    """A day and a time of day, of which one may be written as people do."""
    day = dates(written=True)
    clock = ir.union(fragment_regex(f"{_HOUR}:{_MINUTE}(?::{_MINUTE})?"), written_times())
    return ir.union(
        ir.concat(day, fragment_regex(",? (?:at |um |\u00e0 )?"), clock),
        ir.concat(clock, fragment_regex(" on |, "), day),
    )


def _in_order(bound: str, *, above: bool) -> ir.Regex:
    """Texts of dates or clocks from a bound on, or up to it, in lexical order."""
    rest = fragment_regex("[0-9:.-]*")
    options: list[ir.Regex] = [ir.concat(ir.literal(bound), rest) if above else ir.literal(bound)]
    for i, char in enumerate(bound):
        if char.isdigit():
            low, high = (ord(char) + 1, 0x39) if above else (0x30, ord(char) - 1)
            if low <= high:
                options.append(ir.concat(ir.literal(bound[:i]), ir.chars([(low, high)]), rest))
    return ir.union(*options)


def datetimes(
    zone: str = "any", low: str | None = None, high: str | None = None, written: bool = False
) -> ir.Regex:
    """Texts of `datetime.datetime`.

    Args:
        zone: ``"aware"``: with an offset; ``"naive"``: without one; ``"any"``.
        low: least value, as `datetime.isoformat` writes it. A bound with an offset compares instants with texts that
            have one: within a day and a half of the bound these are written with an offset in use.
        high: greatest value, likewise.
        written: without bounds and where it needs no offset, also what people write, of the years 1000 to 2999.
    """
    zones = ["naive", "aware"] if zone == "any" else [zone]
    bounds = [
        (dt.datetime.fromisoformat(bound), above) for bound, above in ((low, True), (high, False)) if bound
    ]
    if not bounds and written and zone != "aware":
        return ir.union(
            ir.concat(
                ir.intersection(date(), fragment_regex("[12][0-9-]*")), _separator(), _clock(), _zone(zone)
            ),
            written_datetimes(),
        )
    if not bounds:
        return ir.concat(date(), _separator(), _clock(), _zone(zone))
    return ir.union(
        *(ir.intersection(*(_bounded(bound, above, one) for bound, above in bounds)) for one in zones)
    )


def _separator() -> ir.Regex:
    return fragment_regex("[Tt ]")


def _bounded(bound: dt.datetime, above: bool, zone: str) -> ir.Regex:
    """Date-times with (``aware``) or without an offset on one side of a bound."""
    if zone == "naive" or bound.tzinfo is None:
        return ir.concat(_wall_clock(bound.replace(tzinfo=None), above), _zone(zone))
    utc = bound.astimezone(dt.timezone.utc).replace(tzinfo=None)
    options: list[ir.Regex] = []
    try:
        far = (utc + dt.timedelta(days=2 if above else -2)).date().isoformat()
        days = dates(low=far) if above else dates(high=far)
        options.append(ir.concat(days, _separator(), _clock(), _zone("aware")))
    except OverflowError:
        pass
    for minutes in _OFFSETS:
        sign, size = "-" if minutes < 0 else "+", abs(minutes)
        spellings = [
            ir.literal(f"{sign}{size // 60:02d}:{size % 60:02d}"),
            ir.literal(f"{sign}{size // 60:02d}{size % 60:02d}"),
        ]
        spellings += [fragment_regex("[Zz]")] if minutes == 0 else []
        try:
            wall = utc + dt.timedelta(minutes=minutes)
        except OverflowError:
            continue
        options.append(ir.concat(_wall_clock(wall, above), ir.union(*spellings)))
    return ir.union(*options)


def _wall_clock(bound: dt.datetime, above: bool) -> ir.Regex:
    """Dates and clocks, without an offset, on one side of a bound."""
    if above and bound.microsecond:
        bound = bound.replace(microsecond=0) + dt.timedelta(seconds=1)
    minute = f"{bound:%H:%M}"  # less than the same one with seconds
    clock = _in_order(f"{bound:%H:%M:%S}" if bound.second or not above else minute, above=above)
    if not above:
        clock = ir.union(clock, ir.literal(minute))
    same = ir.concat(ir.literal(bound.date().isoformat()), _separator(), ir.intersection(clock, _clock()))
    try:
        day = (bound.date() + dt.timedelta(days=1 if above else -1)).isoformat()
    except OverflowError:
        return same
    days = dates(low=day) if above else dates(high=day)
    return ir.union(ir.concat(days, _separator(), _clock()), same)


_FEW = "[0-9]{1,6}"
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
