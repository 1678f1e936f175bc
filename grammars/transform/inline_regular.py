"""Inlines small regular rules into terminals, so that a character does not cost a parser step.

Rules that are not recursive are regular. A small one is inlined into its callers as a regular expression, and adjacent
terminals are merged; a recursive or large rule stays a call. The language does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from constrained.grammars import ir
from constrained.grammars.regex import analysis
from constrained.grammars.visit import calls, children, fold, strongly_connected_components, with_children

MAX_TERMINAL_SIZE = 500
"""Literals, classes and counts that one terminal may be written with. Its derivatives are unions of parts of it."""


_REGULAR = 4 * MAX_TERMINAL_SIZE
"""Literals, classes and counts beyond which nothing is kept as a regular expression."""


@dataclass(frozen=True, slots=True, eq=False)
class _SizedExpr:
    """An expression, and the equivalent regular expression if it is regular."""

    expr: ir.Expr
    regex: ir.Regex | None
    size: int  # literals, classes and counts in the regular expression, each as often as it is written

    def unit(self, limit: int) -> bool:
        return self.regex is not None and self.size <= limit


def inline_regular_rules(
    grammar: ir.Grammar,
    *,
    limit: int = MAX_TERMINAL_SIZE,
    differences: Collection[str] = (),
    not_regular_error: Callable[[str], Exception] = KeyError,
) -> ir.Grammar:
    """An equivalent grammar with terminals as large as `limit` allows.

    Args:
        grammar: all rules that are called are defined.
        limit: literals, classes and counts per terminal; 0 keeps the rules as they are.
        differences: rules that mean their first alternative without their second one.
        not_regular_error: the error for one of those when an alternative is recursive.

    Raises:
        Exception: from `not_regular_error`.
    """
    rules = grammar.rules
    edges = {name: calls(body) for name, body in rules.items()}
    parts: dict[str, _SizedExpr] = {}
    known: dict[ir.Expr, _SizedExpr] = {}
    bodies: dict[str, ir.Expr] = {}
    for component in strongly_connected_components(edges):
        if len(component) > 1 or component[0] in edges[component[0]]:
            parts.update((name, _SizedExpr(ir.call(name), None, 0)) for name in component)
        for name in component:
            part = fold(rules[name], children, lambda expr, known: _part(expr, known, parts, limit), known)
            if name in differences:
                one, other = (known[half] for half in children(rules[name]))
                if one.regex is None or other.regex is None:
                    raise not_regular_error(name)
                regex = ir.difference(one.regex, other.regex)
                part = _SizedExpr(ir.Terminal(regex), regex, one.size + other.size)
            bodies[name] = part.expr
            if name not in parts:
                parts[name] = part if part.unit(limit) else _SizedExpr(ir.call(name), part.regex, part.size)
    return ir.Grammar({name: bodies[name] for name in rules}, grammar.start)


def _part(
    expr: ir.Expr, known: dict[ir.Expr, _SizedExpr], parts_by_rule: dict[str, _SizedExpr], limit: int
) -> _SizedExpr:
    if isinstance(expr, ir.Terminal):
        return _SizedExpr(expr, expr.regex, _size(expr.regex))
    if isinstance(expr, ir.Call):
        return parts_by_rule[expr.rule]
    parts = [known[part] for part in children(expr)]
    regexes = [part.regex for part in parts if part.regex is not None]
    if isinstance(expr, ir.Interleave):
        return _SizedExpr(with_children(expr, tuple(part.expr for part in parts)), None, 0)
    size = sum(part.size for part in parts) + isinstance(expr, ir.Loop)
    if isinstance(expr, ir.Choice) and all(isinstance(one, (ir.Literal, ir.Chars)) for one in regexes):
        size = 1 if len(regexes) == len(parts) else size  # a set of words counts as one unit
    regular = len(regexes) == len(parts) and size <= _REGULAR
    if isinstance(expr, ir.Loop):
        regex = ir.repeat(regexes[0], expr.low, expr.high) if regular else None
        plain = ir.loop(parts[0].expr, expr.low, expr.high)
    elif isinstance(expr, ir.Choice):
        regex = ir.union(*regexes) if regular else None
        plain = ir.choice(*_merged(parts, limit, ir.union, together=False))
    else:
        regex = ir.concat(*regexes) if regular else None
        plain = ir.sequence(*_merged(parts, limit, ir.concat, together=True))
    if regex is not None and size <= limit:
        plain = ir.Terminal(regex)
    return _SizedExpr(plain, regex, size)


def _merged(
    parts: list[_SizedExpr], limit: int, join: Callable[..., ir.Regex], *, together: bool
) -> list[ir.Expr]:
    """The parts with units joined; in a sequence only `together`, where they stand side by side."""
    merged: list[ir.Expr] = []
    adjacent: list[ir.Regex] = []
    size = 0

    def flush() -> None:
        nonlocal size
        if adjacent:
            merged.append(ir.Terminal(join(*adjacent)))
        adjacent.clear()
        size = 0

    for part in parts:
        if part.regex is None or part.size > limit:
            if together:
                flush()
            merged.append(part.expr)
            continue
        if size + part.size > limit:
            flush()
        adjacent.append(part.regex)
        size += part.size
    flush()
    return merged


def _size(regex: ir.Regex) -> int:
    """Literals, classes and counts, each as often as it is written."""

    def value(node: ir.Regex, known: dict[ir.Regex, int]) -> int:
        parts = analysis.children(node)
        if isinstance(node, ir.Union) and all(isinstance(part, (ir.Literal, ir.Chars)) for part in parts):
            return 1
        return sum(known[part] for part in parts) + isinstance(node, ir.Repeat) or 1

    return fold(regex, analysis.children, value, {})
