"""``contains``, ``minContains`` and ``maxContains``: an automaton over the position and the counts, which only increase.

A state is the number of items so far, and for each ``contains`` the number of matching items, both capped where more makes
no difference. Every item either matches or does not match each ``contains``; where only a minimum is required, a match
may go uncounted. Each state has one expression for the rest of the array, shared by all transitions to it.
"""

from __future__ import annotations

from math import prod

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.json_schema.emit.context import Context
from constrained.grammars.json_schema.source.constraints import TypeConstraints, schemas_on
from constrained.grammars.json_schema.source.synthetic import negation_of
from constrained.grammars.work import spend

MAX_COUNT_STATES = 20_000
"""Maximum number of states of one array."""

MAX_COUNT_OPTIONS = 60_000
"""Maximum number of kinds of items in all states of one array: which of the ``contains`` they match."""

MAX_UNCOUNTED = 50_000
"""Where matches may go uncounted, after each item every lower count is possible too: maximum of the product of all minimums, each plus one,
times their sum. Near it a count of tokens takes some 3,000,000 steps."""

CountState = tuple[int, tuple[int, ...]]
CountTransitions = dict[CountState, list[ir.Expr]]


def contains_array_expr(
    constraints: TypeConstraints,
    context: Context,
) -> ir.Expr:
    """The arrays of constraints with ``contains``.

    Args:
        constraints: with at least one `TypeConstraints.contains_constraints`.
        context: the document.

    Raises:
        ConstraintTooLarge: there are more than `MAX_COUNT_STATES` states, or `MAX_COUNT_OPTIONS` kinds of items, or minimums beyond `MAX_UNCOUNTED`.
    """
    parts, high = constraints.contains_constraints, constraints.max_items
    signs = context.punctuation.array
    size = max(constraints.min_items, high or 0, *(len(part.items.prefix) for part in parts))
    size = max([size, *(len(items.prefix) for items in constraints.items)])

    listed = max(
        [0, *(len(part.items.prefix) for part in parts), *(len(items.prefix) for items in constraints.items)]
    )

    def too_high(reason: str) -> ConstraintTooLarge:
        problem = Problem(parts[0].place, reason)
        return ConstraintTooLarge(
            "the counts of contains are too high", problem, action="lower the counts of this array"
        )

    least = [part.min_contains for part in parts if part.max_contains is None]
    if prod(low + 1 for low in least) * sum(least) > MAX_UNCOUNTED:
        raise too_high("the minimums can be reached in too many ways: " + ", ".join(map(str, least)))
    options_at: dict[CountState, list[tuple[ir.Expr, tuple[int, ...]]]] = {}
    found = 0  # in all of them

    def items_at(index: int, counts: tuple[int, ...]) -> list[tuple[ir.Expr, tuple[int, ...]]]:
        """The items that may stand at a position, each with the counts after it."""
        options = [(schemas_on(constraints.items, index), counts)]
        for k, part in enumerate(parts):
            wanted = tuple(part.items.schemas_at(index))
            if not wanted or (part.max_contains is None and counts[k] == part.min_contains):
                continue
            split = []
            for nodes, reached in options:
                unmatched = () if part.max_contains is None else map(negation_of, wanted)
                split.append(((*nodes, *unmatched), reached))
                if part.max_contains is None or counts[k] < part.max_contains:
                    chosen = (*nodes, *wanted) if counts[k] < part.min_contains else nodes
                    more = (*reached[:k], reached[k] + 1, *reached[k + 1 :])
                    if not context.known_empty(tuple(dict.fromkeys((*nodes, *wanted)))):
                        split.append((chosen, more))
            options = split
            spend(2 * len(options), part.place)
            if found + len(options) > MAX_COUNT_OPTIONS:
                raise too_high(f"more than {MAX_COUNT_OPTIONS} kinds of items that match some of them")
        transitions = [
            (context.conjunction_expr(tuple(dict.fromkeys(nodes))), reached) for nodes, reached in options
        ]
        return [transition for transition in transitions if transition[0] is not ir.EMPTY_LANGUAGE]

    def edges(state: CountState) -> CountTransitions:
        nonlocal found
        index, counts = state
        if high is not None and index >= high:
            return {}
        position_class = min(index, listed), counts  # positions after the prefixes are equivalent
        if position_class not in options_at:
            options_at[position_class] = items_at(*position_class)
            found += len(options_at[position_class])
        transitions: CountTransitions = {}
        following = min(index + 1, size)
        for item, reached in options_at[position_class]:
            transitions.setdefault((following, reached), []).append(item)
        return transitions

    def may_end(state: CountState) -> bool:
        index, counts = state
        return index >= constraints.min_items and all(
            count >= part.min_contains for count, part in zip(counts, parts, strict=True)
        )

    def next_items(state: CountState, other: CountState) -> ir.Expr:
        """A comma and the items that lead from one state to another."""
        return signs.next_item(ir.choice(*known[state][other]))

    start: CountState = (0, (0,) * len(parts))
    if high is not None and high < constraints.min_items:
        return ir.EMPTY_LANGUAGE
    known: dict[CountState, CountTransitions] = {}
    tails: dict[CountState, ir.Expr] = {}  # by state, after at least one item

    def tail(state: CountState) -> ir.Expr:
        """The rest of an array after an item that led to a state."""
        spend(2 * sum(map(len, known[state].values())))
        others = [other for other in known[state] if other != state and tails[other] is not ir.EMPTY_LANGUAGE]
        ends = [ir.sequence(next_items(state, other), tails[other]) for other in others]
        again = ir.loop(next_items(state, state), 0, None) if state in known[state] else ir.EPSILON
        return ir.sequence(again, ir.choice(*[signs.close] * may_end(state), *ends))

    stack = [start]
    while stack:
        state = stack[-1]
        if state not in known:
            known[state] = edges(state)
            if len(known) > MAX_COUNT_STATES:
                raise too_high(f"more than {MAX_COUNT_STATES} combinations of position and counts")
            stack.extend(other for other in known[state] if other not in known)
            continue
        stack.pop()
        if state not in tails:
            tails[state] = tail(state)
    first = [
        ir.sequence(ir.choice(*items), tails[other] if other != start else tail(start))
        for other, items in known[start].items()
    ]
    full = ir.sequence(signs.open, ir.choice(*first))
    return ir.choice(context.punctuation.empty_array, full) if may_end(start) else full
