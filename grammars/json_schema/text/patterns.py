"""The languages of ``pattern`` and ``format``, and their JSON encodings, built once per process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.text.formats import Format
from constrained.grammars.json_schema.text.strings import CANONICAL_ESCAPES
from constrained.grammars.regex import parse
from constrained.grammars.regex.analysis import widths
from constrained.grammars.regex.languages import matches

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
