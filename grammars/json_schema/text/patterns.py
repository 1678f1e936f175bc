"""Patterns and formats: languages of characters, and the JSON text of each, made once per process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.text.formats import Format
from grammars.json_schema.text.strings import CANONICAL_ESCAPES
from grammars.regex import parse
from grammars.regex.analysis import widths
from grammars.regex.matching import matches


class StringPattern:
    """A language of characters.

    Attributes:
        source: what it was made from.
        value_language: the language itself.
        shortest, longest: bounds of its texts' lengths in code points (`longest` None: no bound).

    Where `characters` leaves out some texts that cannot be told from others, `loosest` holds these too.
    """

    __slots__ = ("_body", "_known", "_loosest", "_negated", "longest", "shortest", "source", "value_language")

    def __init__(
        self, source: str, characters: ir.Regex, loosest: Callable[[], ir.Regex] | None = None
    ) -> None:
        self.source = source
        self.value_language = characters
        self._loosest = loosest
        self.shortest, self.longest = widths(characters)
        self._body: ir.Regex | None = None
        self._negated: StringPattern | None = None
        self._known: dict[str, bool] = {}

    @property
    def json_body(self) -> ir.Regex:
        """What stands between the quotes of a JSON string."""
        if self._body is None:
            self._body = CANONICAL_ESCAPES.encode(self.value_language)
        return self._body

    @property
    def superset(self) -> ir.Regex:
        """A language without which a text is surely none of these: what a negation is taken of."""
        return self.value_language if self._loosest is None else self._loosest()

    @property
    def negated(self) -> StringPattern:
        """All other texts, as far as they can be told; the negation of that is this one again."""
        if self._negated is None:
            self._negated = StringPattern(f"not {self.source}", ir.difference(ir.TEXT, self.superset))
            self._negated._negated = self
        return self._negated

    def matches(self, text: str) -> bool:
        """Whether a text is in the language."""
        found = self._known.get(text)
        if found is None:
            found = self._in(self.value_language, text)
            if len(self._known) < 10_000:
                self._known[text] = found
        return found

    def may_match(self, text: str) -> bool:
        """Whether a text is in the loosest language."""
        return self.matches(text) or (self._loosest is not None and self._in(self.superset, text))

    def _in(self, language: ir.Regex, text: str) -> bool:
        try:
            return matches(language, text)
        except RecursionError:
            raise ConstraintTooLarge(
                "a pattern is nested too deeply to judge names and values by it",
                Problem("pattern", "too deep", self.source),
            ) from None


@lru_cache(maxsize=4096)
def ecma_pattern(source: str) -> StringPattern:
    """The texts that contain a match of an ECMA-262 pattern.

    Raises:
        ConstraintError: as `grammars.regex.parse`.
    """
    return StringPattern(source, parse(source, dialect="ecma", search=True))


@cache
def format_pattern(found: Format) -> StringPattern:
    """The texts of a format."""
    return StringPattern(f"format {found.name}", found.build(), found.superset)
