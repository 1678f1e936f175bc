"""Types that are one JSON string, number, boolean or null: a table of schemas and conversions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from constrained.grammars.content import CONTENT_KEYWORD

_DATE = r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
_TIME = (
    r"(?P<clock>[0-9]{2}:[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_FULL_DATE = re.compile(_DATE)
_FULL_TIME = re.compile(_TIME)
_DATE_TIME = re.compile(f"{_DATE}[Tt ]{_TIME}")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?=[0-9T])(?:(?P<years>[0-9]+)Y)?(?:(?P<months>[0-9]+)M)?(?:(?P<weeks>[0-9]+)W)?"
    r"(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]+)?)S)?)?"
)


def _match(pattern: re.Pattern[str], value: Any, what: str) -> re.Match[str]:
    found = pattern.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is not {what}")
    return found


def _exactly(*kinds: type) -> Callable[[Any], Any]:
    """Accepts a value of these types unchanged; `bool` is not an `int` here, as in JSON."""

    def build(value: Any) -> Any:
        if type(value) not in kinds:
            raise ValueError(f"{value!r} is not of type {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return build


def _integer(value: Any) -> int:
    if type(value) is int or (type(value) is float and value.is_integer()):
        return int(value)
    raise ValueError(f"{value!r} is not an integer")


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _decimal(value: Any) -> Decimal:
    if type(value) not in (int, float):
        raise ValueError(f"{value!r} is not a number")
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _moment(found: re.Match[str]) -> tuple[str, int, timedelta]:
    """The ISO text of a time without its fraction, its microseconds, and the leap second if it is one."""
    second = found["second"] or "00"
    leap = timedelta(seconds=1) if second == "60" else timedelta()
    zone = found["zone"] or ""
    zone = "+00:00" if zone in ("Z", "z") else f"{zone[:3]}:{zone[-2:]}" if zone else ""
    micro = int((found["fraction"] or "0")[:6].ljust(6, "0"))
    return f"{found['clock']}:{'59' if leap else second}{zone}", micro, leap


def _datetime(value: Any) -> datetime:
    found = _match(_DATE_TIME, value, "a date-time of ISO 8601")
    clock, micro, leap = _moment(found)
    return datetime.fromisoformat(f"{found['date']}T{clock}").replace(microsecond=micro) + leap


def _time(value: Any) -> time:
    clock, micro, leap = _moment(_match(_FULL_TIME, value, "a time of ISO 8601"))
    read = time.fromisoformat(clock).replace(microsecond=micro)
    moved = datetime.combine(date(2000, 1, 1), read) + leap
    return moved.timetz()


def _date(value: Any) -> date:
    return date.fromisoformat(_match(_FULL_DATE, value, "a date of RFC 3339")["date"])


def _timedelta(value: Any) -> timedelta:
    found = _match(_DURATION, value, "a duration of ISO 8601")
    part = {name: Decimal(text) for name, text in found.groupdict("0").items() if name != "sign"}
    days = part["years"] * 365 + part["months"] * 30 + part["weeks"] * 7 + part["days"]
    micro = ((part["hours"] * 60 + part["minutes"]) * 60 + part["seconds"]) * 1_000_000
    length = timedelta(days=int(days), microseconds=int(micro))
    return -length if found["sign"] == "-" else length


def _uuid(value: Any) -> UUID:
    return UUID(_match(_UUID, value, "a UUID")[0])


def _as_is(value: Any) -> Any:
    return value


def _text(wrap: Callable[[str], Any]) -> Callable[[Any], Any]:
    checked = _exactly(str)
    return lambda value: wrap(checked(value))


def _string(format_name: str, content: Any = None) -> dict[str, Any]:
    schema = {"type": "string", "format": format_name}
    return schema if content is None else {**schema, CONTENT_KEYWORD: content}


_ADDRESSES = {
    ipaddress.IPv4Address: "ipv4",
    ipaddress.IPv4Network: "ipv4network",
    ipaddress.IPv4Interface: "ipv4interface",
    ipaddress.IPv6Address: "ipv6",
    ipaddress.IPv6Network: "ipv6network",
    ipaddress.IPv6Interface: "ipv6interface",
}
"""Types -> formats, those of pydantic where JSON Schema has none."""


SCALARS: dict[Any, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    str: ({"type": "string"}, _exactly(str)),
    int: ({"type": "integer"}, _integer),
    float: ({"type": "number"}, _number),
    bool: ({"type": "boolean"}, _exactly(bool)),
    type(None): ({"type": "null"}, _exactly(type(None))),
    Any: ({}, _as_is),
    object: ({}, _as_is),
    Decimal: ({"type": "number"}, _decimal),
    Fraction: (_string("fraction"), _text(Fraction)),
    complex: ({"type": "string", CONTENT_KEYWORD: {"complex": {}}}, _text(complex)),
    datetime: (_string("date-time", {"datetime": {}}), _datetime),
    date: (_string("date", {"date": {}}), _date),
    time: (_string("time", {"time": {}}), _time),
    timedelta: (_string("duration", {"duration": {}}), _timedelta),
    bytes: (_string("binary"), _text(str.encode)),
    re.Pattern: (_string("regex"), _text(re.compile)),
    ZoneInfo: (_string("zoneinfo"), _text(ZoneInfo)),
    UUID: (_string("uuid"), _uuid),
    Path: ({"type": "string"}, _text(Path)),
    **{kind: ({"type": "string"}, _text(kind)) for kind in (PurePath, PurePosixPath, PureWindowsPath)},
    **{kind: (_string(name), _text(kind)) for kind, name in _ADDRESSES.items()},
}
"""Type -> its schema, and the function from a JSON value of that schema to a value of the type."""
