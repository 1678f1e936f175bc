"""What the strings of a JSON text may not contain as it is written, before escapes are read: substrings, and escapes.

Servers name the special tokens of a model as substrings: none of them may stand inside an argument. With ``ensure_ascii`` the
grammar, in which every string has all the spellings that are allowed, is narrowed to the texts without characters beyond ASCII,
or to those without escapes that nothing asks for. Every value keeps a text: a character beyond ASCII may be escaped, and one that
may be escaped without need may stand for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from json.encoder import encode_basestring
from typing import Any

from constrained.grammars import ir, visit
from constrained.grammars.json_schema.text.strings import QUOTE, EscapeStyle
from constrained.grammars.regex import parse


class ExcludedSubstrings:
    """Substrings that are excluded from strings without ``pattern`` and ``format``, and from the names of members.

    Args:
        texts: non-empty texts; none of them: nothing is excluded.

    Attributes:
        texts: as passed, each once.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._any = ir.concat(ir.TEXT, ir.union(*map(ir.literal, self.texts)), ir.TEXT)

    def without(self, body: ir.Regex) -> ir.Regex:
        """The texts of a language that contain none of the substrings."""
        return ir.difference(body, self._any) if self.texts else body

    def within_quotes(self, strings: ir.Regex) -> ir.Regex:
        """The JSON strings of a language that contain none of the substrings between their quotes."""
        if not self.texts:
            return strings
        return ir.difference(strings, ir.concat(QUOTE, self._any, QUOTE))

    def allow(self, value: Any) -> bool:
        """Whether no string in a JSON value contains one of the substrings, as `json.dumps` writes it."""
        stack = [value] if self.texts else []
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                written = encode_basestring(item)[1:-1]
                if any(text in written for text in self.texts):
                    return False
            elif isinstance(item, dict):
                stack += [*item, *item.values()]
            elif isinstance(item, (list, tuple)):
                stack += item
        return True


_MUST_ESCAPE = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C))


def restrict_escapes(grammar: ir.Grammar, ensure_ascii: bool) -> ir.Grammar:
    """A JSON grammar restricted to ASCII (True), or to required escapes (False)."""
    texts = _texts(ensure_ascii)
    cache: dict[ir.Expr, ir.Expr] = {}
    narrowed: dict[ir.Regex, ir.Regex] = {}

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if isinstance(expr, ir.Mark):
            return expr
        if isinstance(expr, ir.Terminal):
            if expr.regex not in narrowed:
                narrowed[expr.regex] = ir.intersection(expr.regex, texts)
            return ir.Terminal(narrowed[expr.regex])
        return visit.with_children(expr, tuple(known[part] for part in visit.children(expr)))

    rules = {name: visit.fold(body, visit.children, value, cache) for name, body in grammar.rules.items()}
    return ir.Grammar(rules, grammar.start)


@cache
def _texts(ensure_ascii: bool) -> ir.Regex:
    """The texts that a terminal may consist of."""
    if ensure_ascii:
        return ir.repeat(ir.chars([(0x00, 0x7F)]))
    plain = ir.chars([(0x00, 0x5B), (0x5D, ir.MAX_CODE_POINT)])
    unit = ir.union(plain, EscapeStyle((), slash=False).unit(_MUST_ESCAPE))
    high, low = (parse(rf"\\u[dD][{digits}][0-9A-Fa-f]{{2}}") for digits in ("89abAB", "c-fC-F"))
    # A half of a pair of surrogates is escaped; a pair stands for a character, which needs no escape.
    halves = ir.repeat(high)
    return ir.concat(ir.repeat(ir.union(unit, low, ir.concat(high, halves, unit))), halves)
