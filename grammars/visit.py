"""Traversals of expressions and rules, all iterative: a user's grammar may be of any depth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from constrained.grammars import ir

N = TypeVar("N", bound=Hashable)
V = TypeVar("V")


def children(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    """The direct parts of an expression; a call is a leaf."""
    if isinstance(expr, (ir.Sequence, ir.Choice)):
        return expr.parts
    if isinstance(expr, ir.Interleave):
        return (expr.separator, *(part for entry in expr.entries for part in (entry.head, entry.body)))
    return (expr.part,) if isinstance(expr, ir.Loop) else ()


def with_children(expr: ir.Expr, parts: tuple[ir.Expr, ...]) -> ir.Expr:
    """A copy of an expression with other `children`, not simplified; a leaf is returned unchanged."""
    if isinstance(expr, (ir.Sequence, ir.Choice)):
        return type(expr)(parts)
    if isinstance(expr, ir.Loop):
        return ir.Loop(parts[0], expr.low, expr.high)
    if isinstance(expr, ir.Interleave):
        pairs = zip(expr.entries, parts[1::2], parts[2::2], strict=True)
        entries = tuple(
            ir.InterleaveEntry(head, body, entry.slot, entry.discharges, distinct=entry.distinct)
            for entry, head, body in pairs
        )
        return ir.Interleave(
            entries, expr.required, expr.obligations, expr.low, expr.high, parts[0], expr.ordered
        )
    return expr


def fold(
    root: N, children_of: Callable[[N], Iterable[N]], value: Callable[[N, dict[N, V]], V], known: dict[N, V]
) -> V:
    """Computes the value of `root` from the values of its children, bottom-up.

    Args:
        root: where to start.
        children_of: the nodes whose values `value` needs.
        value: of a node, given the values known so far.
        known: values by node; those of earlier calls are reused, new ones are added. Nodes compare by identity.
    """
    stack = [root]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        missing = [part for part in children_of(node) if part not in known]
        if missing:
            missing.reverse()
            stack.extend(missing)
            continue
        known[node] = value(node, known)
        stack.pop()
    return known[root]


def postorder(root: ir.Expr) -> Iterator[ir.Expr]:
    """Every expression in `root` once, parts first."""
    order: dict[ir.Expr, None] = {}
    fold(root, children, lambda expr, known: None, order)
    return iter(order)


def calls(root: ir.Expr) -> dict[str, None]:
    """Names of the rules that an expression calls, in order, each once."""
    return dict.fromkeys(expr.rule for expr in postorder(root) if isinstance(expr, ir.Call))


def strongly_connected_components(edges: Mapping[N, Iterable[N]]) -> list[list[N]]:
    """Strongly connected components, targets before sources (Tarjan 1972, iterative)."""
    order: dict[N, int] = {}
    low: dict[N, int] = {}
    done: set[N] = set()
    pending: list[N] = []
    components: list[list[N]] = []
    for root in edges:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        pending.append(root)
        path = [(root, iter(edges[root]))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in order:
                    order[target] = low[target] = len(order)
                    pending.append(target)
                    path.append((target, iter(edges[target])))
                    break
                if target not in done:
                    low[node] = min(low[node], order[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    at = len(pending) - 1
                    while pending[at] != node:
                        at -= 1
                    components.append(pending[at:])
                    done.update(components[-1])
                    del pending[at:]
    return components


def drop_unreachable(grammar: ir.Grammar) -> ir.Grammar:
    """The grammar without unreachable rules; the grammar itself if there are none."""
    reachable = {grammar.start: None}
    for name in (queue := [grammar.start]):
        for callee in calls(grammar.rules[name]):
            if callee not in reachable:
                reachable[callee] = None
                queue.append(callee)
    if len(reachable) == len(grammar.rules):
        return grammar
    return ir.Grammar(
        {name: body for name, body in grammar.rules.items() if name in reachable}, grammar.start
    )
