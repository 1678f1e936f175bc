"""The formats of JSON Schema by name, each a regular language from `constrained.grammars.json_schema.text.rfc`.

A name that is not in the table is an annotation, as the specification says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.json_schema.text.rfc import hosts, identifiers, patterns, times

__all__ = ["ENDLESS_DIGITS", "FORMATS", "FORMATS_BEFORE_7", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        name: the value of ``format``.
        build: its texts.
        superset: where `build` leaves some out because they are not regular: a language that holds all of them, so
            that what lies outside of it is surely not of this format.
    """

    name: str
    build: Callable[[], ir.Regex]
    superset: Callable[[], ir.Regex] | None = None


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("date-time", times.date_time, times.date_time_superset),
        Format("date", times.date),
        Format("time", times.time, times.time_superset),
        Format("duration", times.duration),
        Format("email", hosts.email),
        Format("idn-email", hosts.idn_email),
        Format("hostname", hosts.hostname, hosts.ldh_hostname),
        Format("idn-hostname", hosts.idn_hostname, hosts.idn_hostname_superset),
        Format("ipv4", hosts.ipv4),
        Format("ipv6", hosts.ipv6),
        Format("uri", identifiers.uri),
        Format("uri-reference", identifiers.uri_reference),
        Format("iri", identifiers.iri),
        Format("iri-reference", identifiers.iri_reference),
        Format("uri-template", identifiers.uri_template),
        Format("uuid", identifiers.uuid),
        Format("json-pointer", identifiers.json_pointer),
        Format("relative-json-pointer", identifiers.relative_json_pointer),
        Format("regex", patterns.regex, patterns.regex_superset),
    )
}
"""Formats by name."""
FORMATS_BEFORE_7: dict[str, Format] = {**FORMATS, "hostname": Format("hostname", hosts.ldh_hostname)}
"""Formats up to draft 6, where the Unicode form of a host name's label is not checked."""
ENDLESS_DIGITS = frozenset({"date-time", "time", "duration"})
"""Formats with numbers that have any number of digits, which ``max_digits`` bounds."""
