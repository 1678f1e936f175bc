"""The texts of Python's types that JSON writes as strings, by kind: what the types and pydantic accept.

A schema of `constrained.grammars.types` names a kind by ``{"x-content": {kind: parameters}}``; parameters are JSON objects, and each
function here takes them as keyword arguments and returns the grammar of the strings, not yet escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.text.python import addresses, encodings, times
from constrained.grammars.json_schema.text.rfc.identifiers import uuid

__all__ = ["KINDS"]


def _regular(make: Callable[..., ir.Regex]) -> Callable[[Any], ir.Grammar]:
    return lambda parameters: ir.Grammar.of(make(**parameters))


KINDS: Mapping[str, Callable[[Any], ir.Grammar]] = {
    "datetime": _regular(times.datetimes),
    "date": _regular(times.dates),
    "time": _regular(times.times_of_day),
    "duration": _regular(times.durations),
    "uuid": _regular(uuid),
    "ip": _regular(addresses.addresses),
    "url": _regular(addresses.url),
    "base64": lambda parameters: encodings.base64(**parameters),
    "byte size": _regular(encodings.byte_size),
    "fraction": _regular(encodings.fraction),
    "complex": _regular(encodings.complex_number),
    "email": _regular(addresses.email_address),
    "stripped": _regular(encodings.stripped),
}
"""Kind -> the function from its parameters to a grammar."""
