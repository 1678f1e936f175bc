r"""``ensure_ascii``: restricts the escapes of the strings of a JSON grammar.

Every string is lowered in all the spellings that are allowed; here the grammar is narrowed to the texts without
characters beyond ASCII, or to those without escapes that nothing asks for. Every value keeps a text: a character
beyond ASCII may be escaped, and one that may be escaped without need may stand for itself.
"""

from __future__ import annotations

from functools import cache

from constrained.grammars import ir, visit
from constrained.grammars.json_schema.text.strings import EscapeStyle
from constrained.grammars.regex import parse

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
