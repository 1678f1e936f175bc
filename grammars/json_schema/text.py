"""Patterns and formats: languages of characters, and the JSON text of each, made once per process."""

from __future__ import annotations

from functools import cache, lru_cache

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.formats import FORMATS
from grammars.json_schema.strings import CANONICAL
from grammars.membership import matches
from grammars.regex import parse
from grammars.regex.measure import widths


class Pattern:
    """A language of characters.

    Attributes:
        source: what it was made from.
        characters: the language itself.
        shortest, longest: bounds of its texts' lengths in code points (`longest` None: no bound).
    """

    __slots__ = ("_body", "_known", "characters", "longest", "shortest", "source")

    def __init__(self, source: str, characters: ir.Regex) -> None:
        self.source = source
        self.characters = characters
        self.shortest, self.longest = widths(characters)
        self._body: ir.Regex | None = None
        self._known: dict[str, bool] = {}

    @property
    def body(self) -> ir.Regex:
        """What stands between the quotes of a JSON string."""
        if self._body is None:
            self._body = CANONICAL.encode(self.characters)
        return self._body

    def matches(self, text: str) -> bool:
        """Whether a text is in the language."""
        found = self._known.get(text)
        if found is None:
            try:
                found = matches(self.characters, text)
            except RecursionError:
                raise ConstraintTooLarge(
                    "a pattern is nested too deeply to judge names and values by it",
                    Problem("pattern", "too deep", self.source),
                ) from None
            if len(self._known) < 10_000:
                self._known[text] = found
        return found


@lru_cache(maxsize=4096)
def pattern(source: str) -> Pattern:
    """The texts that contain a match of an ECMA-262 pattern.

    Raises:
        ConstraintError: as `grammars.regex.parse`.
    """
    return Pattern(source, parse(source, dialect="ecma", search=True))


@cache
def format_pattern(name: str) -> Pattern | None:
    """The texts of a format; None when the name is not known."""
    source = FORMATS.get(name)
    return None if source is None else Pattern(f"format {name}", parse(source, dialect="rust", flags="s"))
