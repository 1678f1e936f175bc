"""RFC 3339: dates, times and durations."""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc.notation import fragment_regex

_FRACTION = r"(?:\.[0-9]+)?"
_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_OFFSET = f"(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"


@cache
def date() -> ir.Regex:
    """``full-date``: real days of each month and leap years.

    The year 0000 is left out: the date types of Python and most others begin with the year 1.
    """
    year = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
    leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
    return fragment_regex(
        f"{year}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
        "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
        "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
        f"|{leap}-02-29"
    )


@cache
def _plain_time() -> ir.Regex:
    return fragment_regex(f"{_HOUR}:{_MINUTE}:{_MINUTE}{_FRACTION}{_OFFSET}")


@cache
def time() -> ir.Regex:
    """``full-time``.

    A minute has 61 seconds only at the end of a day in UTC: written here with every offset of whole quarters of an
    hour, as all offsets in use are. All 2,880 that RFC 3339 can write would cost each schema tens of milliseconds.
    """
    return ir.union(_plain_time(), _leap_second())


@cache
def time_superset() -> ir.Regex:
    """Times with 61 seconds in any minute."""
    return ir.union(_plain_time(), fragment_regex(f"{_HOUR}:{_MINUTE}:60{_FRACTION}{_OFFSET}"))


def _leap_second() -> ir.Regex:
    """The leap second 23:59:60 UTC in the local time of every offset."""
    fraction = fragment_regex(_FRACTION)
    hours = []
    for hour in range(24):
        minutes = []
        for minute in (14, 29, 44, 59):
            ahead, behind = (60 * hour + minute + 1) % 1440, 1439 - 60 * hour - minute
            zones = [fragment_regex("[Zz]")] if behind == 0 else []
            zones += [
                ir.Literal(b"+%02d:%02d" % divmod(ahead, 60)),
                ir.Literal(b"-%02d:%02d" % divmod(behind, 60)),
            ]
            minutes.append(ir.Concat((ir.Literal(b"%02d:60" % minute), fraction, ir.Union(tuple(zones)))))
        hours.append(ir.Concat((ir.Literal(b"%02d:" % hour), ir.Union(tuple(minutes)))))
    return ir.Union(tuple(hours))


@cache
def date_time() -> ir.Regex:
    """``date-time``."""
    return ir.concat(date(), fragment_regex("[Tt]"), time())


@cache
def date_time_superset() -> ir.Regex:
    """Dates with the times of `time_superset`."""
    return ir.concat(date(), fragment_regex("[Tt]"), time_superset())


@cache
def duration() -> ir.Regex:
    """``duration`` of appendix A: the units present are consecutive."""
    time_span = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
    date_span = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
    return fragment_regex(f"P(?:{date_span}(?:{time_span})?|{time_span}|[0-9]+W)")
