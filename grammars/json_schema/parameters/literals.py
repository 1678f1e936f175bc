r"""Strings as Python writes them: between quotes, with ``\\``, ``\n``, ``\r``, ``\t`` and escaped quotes.

Line ends and tabs may also stand as they are: chat templates write them so.
"""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir
from constrained.grammars.json_schema.text.strings import EscapeStyle
from constrained.grammars.regex.charset import CodePointRanges, contains, intersection

ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
"""Characters by the letter of their escape."""


class _QuotedStyle(EscapeStyle):
    """The escapes between two quotes of one kind."""

    def __init__(self, quote: str) -> None:
        super().__init__(optional=(), slash=False)
        plain = [(0x09, 0x0A), (0x0D, 0x0D), (0x20, ir.MAX_CODE_POINT)]
        for code in sorted((ord(quote), ord("\\"))):
            low, high = plain.pop()
            plain += [(low, code - 1), (code + 1, high)]
        object.__setattr__(self, "plain", tuple(plain))

    plain: CodePointRanges

    def _unit(self, ranges: CodePointRanges) -> ir.Regex:
        letters = [letter for letter, char in ESCAPES.items() if contains(ranges, ord(char))]
        escaped = ir.concat(ir.Literal(b"\\"), ir.chars((ord(one), ord(one)) for one in letters))
        raw = ir.chars(intersection(ranges, self.plain))
        return ir.union(raw, escaped) if letters else raw

    def spellings(self, char: str) -> list[bytes]:
        """Every spelling of one character."""
        found = [char.encode()] if contains(self.plain, ord(char)) else []
        return found + [b"\\" + letter.encode() for letter, one in ESCAPES.items() if one == char]


@cache
def _quoted_style(quote: str) -> _QuotedStyle:
    return _QuotedStyle(quote)


def quoted(texts: ir.Regex, quotes: str) -> ir.Regex:
    """The strings whose value is in a language, between two of one of these quotes."""
    return ir.union(
        *(
            ir.concat(ir.literal(quote), _quoted_style(quote).encode(texts), ir.literal(quote))
            for quote in quotes
        )
    )
