"""The languages of ``pattern``, ``format`` and ``x-span``, and their JSON encodings, built once per process.

Each format is a regular language from `constrained.grammars.json_schema.text.rfc`. A name that is not in the table is an annotation,
as the specification says. ``x-span`` are the verbatim spans of a text, and their relaxations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, InvalidConstraint, Problem
from constrained.grammars.json_schema.text.rfc import hosts, identifiers, patterns, times
from constrained.grammars.json_schema.text.strings import CANONICAL_ESCAPES
from constrained.grammars.regex import parse
from constrained.grammars.regex.analysis import widths
from constrained.grammars.regex.languages import matches
from constrained.grammars.text.substring import substring_regex

_REMEMBERED, _REMEMBERED_LENGTH = 10_000, 256
"""Texts of which a pattern remembers whether they match; the longest of them."""


class StringPattern:
    """A regular language of string values.

    Some formats are not regular. For them `value_language` is a subset of the strings of the format, and `superset`
    contains all of them.

    Args:
        source: the pattern or the name of the format, for messages.
        value_language: strings that match.
        superset: makes the language of all strings that may match; None: they are `value_language`.

    Attributes:
        source, value_language: as passed.
        shortest, longest: bounds of the length in code points (`longest` None: no bound).
    """

    __slots__ = (
        "_body",
        "_known",
        "_superset",
        "longest",
        "shortest",
        "source",
        "value_language",
    )

    def __init__(
        self, source: str, value_language: ir.Regex, superset: Callable[[], ir.Regex] | None = None
    ) -> None:
        self.source = source
        self.value_language = value_language
        self._superset = superset
        self.shortest, self.longest = widths(value_language)
        self._body: ir.Regex | None = None
        self._known: dict[str, bool] = {}

    @property
    def json_body(self) -> ir.Regex:
        """The JSON encodings of the language, without quotes."""
        if self._body is None:
            self._body = CANONICAL_ESCAPES.encode(self.value_language)
        return self._body

    @property
    def superset(self) -> ir.Regex:
        """A language that contains every string that may match; negations are taken of it."""
        return self.value_language if self._superset is None else self._superset()

    def matches(self, text: str) -> bool:
        """Whether a string matches for certain."""
        result = self._known.get(text)
        if result is None:
            result = self._in(self.value_language, text)
            if len(text) <= _REMEMBERED_LENGTH and len(self._known) < _REMEMBERED:
                self._known[text] = result
        return result

    def may_match(self, text: str) -> bool:
        """Whether a string may match."""
        return self.matches(text) or (self._superset is not None and self._in(self.superset, text))

    def _in(self, language: ir.Regex, text: str) -> bool:
        try:
            return matches(language, text)
        except RecursionError:
            raise ConstraintTooLarge(
                "a pattern is nested too deeply to match names and values against it",
                Problem("pattern", "too deep", self.source),
            ) from None


@lru_cache(maxsize=4096)
def ecma_pattern(source: str) -> StringPattern:
    """The strings that contain a match of an ECMA-262 pattern.

    Raises:
        ConstraintError: as `constrained.grammars.regex.parse`.
    """
    return StringPattern(source, parse(source, dialect="ecma", search=True))


@cache
def format_pattern(format_: Format) -> StringPattern:
    """The strings of a format."""
    return StringPattern(f"format {format_.name}", format_.build(), format_.superset)


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


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """How a span may differ from the text; see `constrained.grammars.text.substring.substring_regex`."""

    any_case: bool = False
    any_space: bool = False
    whole_words: bool = False


_CHOICES = {"case": ("exact", "any"), "space": ("exact", "any"), "words": (False, True)}


def read_span_options(value: Any, place: str) -> SpanOptions:
    """The options of the keyword's value: true, or an object with ``case``, ``space`` and ``words``.

    Raises:
        InvalidConstraint: any other value.
    """
    if value is True:
        return SpanOptions()
    if not isinstance(value, dict):
        raise InvalidConstraint(
            "the schema is malformed",
            Problem(place, "is neither a boolean nor an object", value, "x-span"),
            action='write true, or {"case": "any", "space": "any", "words": true}',
        )
    for name, choice in value.items():
        known = _CHOICES.get(name)
        if known is None or not any(choice is option or choice == option for option in known):
            wanted = f"one of {known[0]!r}, {known[1]!r}" if known else f"one of {', '.join(_CHOICES)}"
            raise InvalidConstraint(
                "the schema is malformed",
                Problem(f"{place}/{name}", f"is not {wanted}", choice if known else name, "x-span"),
            )
    return SpanOptions(value.get("case") == "any", value.get("space") == "any", bool(value.get("words")))


@lru_cache(maxsize=16)
def span_pattern(text: str, options: SpanOptions) -> StringPattern:
    """The non-empty spans of a text.

    Raises:
        InvalidConstraint, UnsatisfiableConstraint, ConstraintTooLarge: as `substring_regex`.
    """
    language = substring_regex(
        text, any_case=options.any_case, any_space=options.any_space, whole_words=options.whole_words
    )
    return StringPattern("x-span", language)
