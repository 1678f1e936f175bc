r"""``ensure_ascii``: restricts the escapes of the strings of a JSON grammar.

Every string is lowered in all the spellings that are allowed; here the grammar is narrowed to the texts without
characters beyond ASCII, or to those without escapes that nothing asks for. Every value keeps a text: a character
beyond ASCII may be escaped, and one that may be escaped without need may stand for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from constrained.grammars import ir, visit
from constrained.grammars.json_schema.text import strings
from constrained.grammars.regex.analysis import children
from constrained.grammars.regex.charset import intersection

_ASCII = ((0x00, 0x7F),)
_COMPLETE = re.compile(rb'(?:[^\\]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*')
"""Text that does not begin or end inside an escape."""
_UNITS = re.compile(rb"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\.")
"""The escapes of such a text; a surrogate pair counts as one."""
_NEEDED = re.compile(rb'\\["\\bfnrt]|\\u(?:00[01].|0022|005[cC]|[dD][89a-fA-F]..)')
"""Required escapes: quotes, backslashes, control characters and lone surrogates."""
_CANNOT_STAND = ((0x00, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_LEAST = strings.EscapeStyle((), slash=False)
"""Strings with required escapes only."""

Known = dict[ir.Regex, ir.Regex]


def restrict_escapes(grammar: ir.Grammar, ensure_ascii: bool) -> ir.Grammar:
    """A JSON grammar restricted to ASCII (True), or to required escapes (False)."""
    cache: dict[ir.Expr, ir.Expr] = {}
    narrowed: Known = {}
    narrow = _in_ascii if ensure_ascii else _without_needless()

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if isinstance(expr, ir.Mark):
            return expr
        if isinstance(expr, ir.Terminal):
            regex = narrow(expr.regex, narrowed)
            return expr if regex is expr.regex else ir.Terminal(regex)
        return visit.with_children(expr, tuple(known[part] for part in visit.children(expr)))

    rules = {name: visit.fold(body, visit.children, value, cache) for name, body in grammar.rules.items()}
    return ir.Grammar(rules, grammar.start)


def _positive(regex: ir.Regex) -> tuple[ir.Regex, ...]:
    """Parts to narrow. A complement is always intersected with a narrowed language, so it stays as it is."""
    return () if isinstance(regex, ir.Complement) else children(regex)


def _over(node: ir.Regex, known: Known) -> ir.Regex:
    """Rebuilds a node over narrowed parts; returns the node itself if no part changed."""
    parts = [known[part] for part in _positive(node)]
    if all(part is before for part, before in zip(parts, _positive(node), strict=True)):
        return node
    if isinstance(node, ir.Repeat):
        return ir.repeat(parts[0], node.low, node.high)
    if isinstance(node, ir.Concat):
        return ir.concat(*parts)
    return (ir.union if isinstance(node, ir.Union) else ir.intersection)(*parts)


# ---------------------------------------------------------------- nothing beyond ASCII


def _in_ascii(regex: ir.Regex, known: Known) -> ir.Regex:
    return visit.fold(regex, _positive, _ascii_value, known)


def _ascii_value(node: ir.Regex, known: Known) -> ir.Regex:
    if isinstance(node, ir.Chars):
        ranges = intersection(node.ranges, _ASCII)
        return node if ranges == node.ranges else ir.chars(ranges)
    if isinstance(node, ir.Literal):
        return node if node.data.isascii() else ir.EMPTY_SET
    if isinstance(node, ir.Substring):
        return strings.respelled(node, lambda texts: [data for data in texts if data.isascii()])
    return _over(node, known)


# ---------------------------------------------------------------- no escape without need


@cache
def _least_texts() -> ir.Regex:
    """Texts with required escapes only."""
    plain = ir.chars([(0x00, 0x5B), (0x5D, ir.MAX_CODE_POINT)])
    return ir.repeat(ir.union(plain, _LEAST.unit(_CANNOT_STAND)))


def _needed_spellings(texts: tuple[bytes, ...]) -> list[bytes]:
    """Spellings without escapes, or with one that is needed."""
    return [data for data in texts if not data.startswith(b"\\") or _NEEDED.fullmatch(data)]


def _without_needless() -> Callable[[ir.Regex, Known], ir.Regex]:
    """Narrows one regular expression.

    The units that strings are made of are swapped for others, so that what is shared stays shared. Only where an
    escape was put together by other means are the texts filtered.
    """
    swapped = {
        unit: _LEAST.unit(ranges)
        for style in (strings.CANONICAL_ESCAPES, strings.ANY_ESCAPES)
        for ranges, unit in list(style.unit_cache.items())
    }
    unsure: set[ir.Regex] = set()  # may still contain an optional escape

    def below(node: ir.Regex) -> tuple[ir.Regex, ...]:
        return () if node in swapped else _positive(node)

    def value(node: ir.Regex, known: Known) -> ir.Regex:
        if node in swapped:
            return swapped[node]
        if isinstance(node, ir.Substring):
            return strings.respelled(node, _needed_spellings)
        if isinstance(node, ir.Literal):
            if b"\\" not in node.data:
                return node
            if _COMPLETE.fullmatch(node.data):
                needed = all(_NEEDED.fullmatch(unit[0]) for unit in _UNITS.finditer(node.data))
                return node if needed else ir.EMPTY_SET
            unsure.add(node)
            return node
        if any(part in unsure for part in _positive(node)):
            unsure.add(node)
        return _over(node, known)

    def narrow(regex: ir.Regex, known: Known) -> ir.Regex:
        narrowed = visit.fold(regex, below, value, known)
        return ir.intersection(narrowed, _least_texts()) if regex in unsure else narrowed

    return narrow
