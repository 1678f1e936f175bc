"""Arrays of which some items are counted: a machine over the position and the counts, which only go up.

A state is how many items are written, as far as that matters, and for each count how many of them were taken to
be its items, likewise. Every item is one of those that count or one that does not, whichever its schemas say; where
only a least count is asked, an item may be passed over. What follows a state is one expression, shared by all
that leads there.
"""

from __future__ import annotations

from collections.abc import Callable

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem
from grammars.json_schema.source.constraints import Goal, Shape
from grammars.json_schema.source.synthetic import negated
from grammars.json_schema.text.punctuation import Layout

MAX_STATES = 20_000
"""Most pairs of a position and counts of one array."""

State = tuple[int, tuple[int, ...]]
Edges = dict[State, list[ir.Expr]]


def counted_array(
    shape: Shape, goal: Callable[[Goal], ir.Expr], impossible: Callable[[Goal], bool], layout: Layout
) -> ir.Expr:
    """Arrays of a shape that counts items.

    Args:
        shape: at least one of its limits is `Shape.counted`.
        goal: the expression of the values of a goal.
        impossible: whether a goal is known to have no values.
        layout: the punctuation.

    Raises:
        ConstraintTooLarge: the counts are too high, or too many at once.
    """
    parts, high = shape.counted, shape.max_items
    size = max(shape.min_items, high or 0, *(len(part.items.prefix) for part in parts))
    size = max([size, *(len(items.prefix) for items in shape.items)])

    listed = max(
        [0, *(len(part.items.prefix) for part in parts), *(len(items.prefix) for items in shape.items)]
    )
    ways: dict[State, list[tuple[ir.Expr, tuple[int, ...]]]] = {}

    def items_at(index: int, counts: tuple[int, ...]) -> list[tuple[ir.Expr, tuple[int, ...]]]:
        """What may stand at a position, each with the counts after it."""
        options = [(tuple(node for items in shape.items for node in items.on(index)), counts)]
        for k, part in enumerate(parts):
            wanted = tuple(part.items.on(index))
            if not wanted or (part.most is None and counts[k] == part.least):
                continue
            split = []
            for nodes, reached in options:
                split.append((nodes if part.most is None else (*nodes, *map(negated, wanted)), reached))
                if part.most is None or counts[k] < part.most:
                    chosen = (*nodes, *wanted) if counts[k] < part.least else nodes
                    more = (*reached[:k], reached[k] + 1, *reached[k + 1 :])
                    if not impossible(tuple(dict.fromkeys((*nodes, *wanted)))):
                        split.append((chosen, more))
            options = split
        found = ((goal(tuple(dict.fromkeys(nodes))), reached) for nodes, reached in options)
        return [(item, reached) for item, reached in found if item is not ir.NEVER]

    def edges(state: State) -> Edges:
        index, counts = state
        if high is not None and index >= high:
            return {}
        alike = min(index, listed), counts  # positions after the listed ones
        if alike not in ways:
            ways[alike] = items_at(*alike)
        found: Edges = {}
        following = min(index + 1, size)
        for item, reached in ways[alike]:
            found.setdefault((following, reached), []).append(item)
        return found

    def may_end(state: State) -> bool:
        index, counts = state
        return index >= shape.min_items and all(
            count >= part.least for count, part in zip(counts, parts, strict=True)
        )

    start: State = (0, (0,) * len(parts))
    if high is not None and high < shape.min_items:
        return ir.NEVER
    known: dict[State, Edges] = {}
    tails: dict[State, ir.Expr] = {}  # one item has been written at least
    stack = [start]
    while stack:
        state = stack[-1]
        if state not in known:
            known[state] = edges(state)
            if len(known) > MAX_STATES:
                raise ConstraintTooLarge(
                    "too many items to count",
                    Problem(parts[0].place, f"more than {MAX_STATES} combinations of position and counts"),
                    action="lower the counts of this array",
                )
            stack.extend(other for other in known[state] if other not in known)
            continue
        stack.pop()
        if state not in tails:
            tails[state] = _tail(state, known[state], tails, layout, end=may_end(state))
    first = [
        ir.sequence(
            ir.choice(*items),
            tails[other] if other != start else _tail(start, known[start], tails, layout, end=may_end(start)),
        )
        for other, items in known[start].items()
    ]
    full = ir.sequence(layout.open_array, ir.choice(*first))
    return ir.choice(layout.empty_array, full) if may_end(start) else full


def _tail(state: State, edges: Edges, tails: dict[State, ir.Expr], layout: Layout, *, end: bool) -> ir.Expr:
    """What follows an item after which a state is reached."""
    ways = [layout.close_array] if end else []
    for other, items in edges.items():
        if other != state:
            ways.append(ir.sequence(layout.comma, ir.choice(*items), tails[other]))
    again = ir.loop(ir.sequence(layout.comma, ir.choice(*edges.get(state, ()))), 0, None)
    return ir.sequence(again, ir.choice(*ways))
