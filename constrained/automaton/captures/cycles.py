"""Expressions that may consist of each other alone, as in ``a: a | "x"``."""

from __future__ import annotations

from constrained.automaton.captures.chart import Chart
from grammars import ir


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
    return _components({expr: _alone_in(chart, expr, empty) for expr in chart.exprs})


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


def _components(edges: dict[ir.Expr, list[ir.Expr]]) -> dict[ir.Expr, int]:
    """By node on a cycle: the number of its strongly connected component (Tarjan 1972)."""
    number: dict[ir.Expr, int] = {}
    lowest: dict[ir.Expr, int] = {}
    path: list[ir.Expr] = []
    on_path: set[ir.Expr] = set()
    found: dict[ir.Expr, int] = {}
    for root in edges:
        work = [] if root in number else [(root, iter(edges[root]))]
        while work:
            node, rest = work[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                path.append(node)
                on_path.add(node)
            for part in rest:
                if part not in number:
                    work.append((part, iter(edges[part])))
                    break
                if part in on_path:
                    lowest[node] = min(lowest[node], lowest[part])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    component = [path.pop()]
                    while component[-1] is not node:
                        component.append(path.pop())
                    on_path.difference_update(component)
                    if len(component) > 1 or node in edges[node]:
                        found.update(dict.fromkeys(component, number[node]))
    return found
