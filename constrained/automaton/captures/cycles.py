"""Expressions that may consist of each other alone, as in ``a: a | "x"``."""

from __future__ import annotations

from constrained.automaton.captures.chart import Chart
from constrained.grammars import ir, visit


def cycles(chart: Chart) -> dict[ir.Expr, int]:
    """By expression that may consist of itself alone: the number of the cycle that it is in."""
    empty: set[ir.Expr] = set()
    users: dict[ir.Expr, list[ir.Expr]] = {}
    for expr in chart.exprs:
        for part in chart.parts(expr):
            users.setdefault(part, []).append(expr)
    work = [expr for expr in chart.exprs if _is_empty(chart, expr, empty)]
    while work:
        expr = work.pop()
        if expr not in empty:
            empty.add(expr)
            work += (user for user in users.get(expr, ()) if _is_empty(chart, user, empty))
    edges = {expr: _alone_in(chart, expr, empty) for expr in chart.exprs}
    return {
        expr: number
        for number, component in enumerate(visit.strongly_connected_components(edges))
        for expr in component
        if len(component) > 1 or expr in edges[expr]
    }


def _is_empty(chart: Chart, expr: ir.Expr, empty: set[ir.Expr]) -> bool:
    """Whether an expression may be empty, as far as its parts are known to be."""
    if isinstance(expr, ir.Terminal):
        return chart.scanner.may_be_empty(expr)
    parts = chart.parts(expr)
    if isinstance(expr, ir.Choice):
        return any(part in empty for part in parts)
    return (isinstance(expr, ir.Loop) and expr.low == 0) or all(part in empty for part in parts)


def _alone_in(chart: Chart, expr: ir.Expr, empty: set[ir.Expr]) -> list[ir.Expr]:
    """The parts that an expression may consist of alone."""
    parts = chart.parts(expr)
    if not isinstance(expr, ir.Sequence):
        return list(parts)
    full = [part for part in parts if part not in empty]
    return list(parts) if not full else full if len(full) == 1 else []
