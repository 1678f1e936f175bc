"""Interleaves: counted entries in any order, at most one for each slot (`ir.Interleave`).

They express the members of an object, or items that must be distinct. As plain rules, n slots in any order would take 2^n
rules; the core keeps the set of open slots instead, and builds only the sets that a completion reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem, UnsupportedConstraint
from constrained.grammars.visit import children, fold

MAX_INTERLEAVE_OBLIGATIONS = 12
"""Obligations of one interleave: the search for a shortest completion visits their subsets."""
MAX_DISTINCT_ENTRIES = 256
"""Required distinct entries of one interleave: the core searches for the shortest ones."""


def interleave(
    entries: Iterable[ir.InterleaveEntry],
    *,
    required: Iterable[int] = (),
    obligations: int = 0,
    low: int = 0,
    high: int | None = None,
    separator: ir.Expr = ir.EPSILON,
    ordered: bool = False,
) -> ir.Expr:
    """Entries in any order; see `ir.Interleave` for the arguments. Entries of the empty language are dropped.

    Raises:
        ConstraintTooLarge: `low` exceeds `ir.MAX_COUNT`, or there are more than `MAX_INTERLEAVE_OBLIGATIONS` obligations.
    """
    low, high = ir.count_bounds(low, high)
    if obligations.bit_length() > MAX_INTERLEAVE_OBLIGATIONS:
        raise ConstraintTooLarge(
            "too many conditions on the members of one object or the items of one array",
            Problem(
                "interleave",
                f"{obligations.bit_length()} obligations; at most {MAX_INTERLEAVE_OBLIGATIONS}",
            ),
        )
    allowed = tuple(
        entry
        for entry in entries
        if entry.head is not ir.EMPTY_LANGUAGE and entry.body is not ir.EMPTY_LANGUAGE
    )
    expr = ir.Interleave(allowed, tuple(sorted(set(required))), obligations, low, high, separator, ordered)
    if not interleave_satisfiable(expr, allowed, alone=separator is ir.EMPTY_LANGUAGE):
        return ir.EMPTY_LANGUAGE
    return expr if allowed and high != 0 else ir.EPSILON


def interleave_nullable(expr: ir.Interleave) -> bool:
    """Whether an interleave accepts the empty string."""
    return not (expr.required or expr.obligations or expr.low)


def interleave_satisfiable(
    expr: ir.Interleave, entries: Sequence[ir.InterleaveEntry], *, alone: bool = False
) -> bool:
    """Whether some of these entries together satisfy the interleave; `alone`: at most one entry can be used."""
    slots: dict[int | None, list[int]] = {}
    for entry in entries:
        slots.setdefault(entry.slot, []).append(entry.discharges & expr.obligations)
    most = len(slots) if None not in slots else None
    if any(slot not in slots for slot in expr.required) or (most is not None and expr.low > most):
        return False
    together = (
        0  # obligations that all slots discharge, counting slots with one entry that discharges all of theirs
    )
    for discharged in slots.values():
        union = 0
        for obligations in discharged:
            union |= obligations
        together |= union if union in discharged else 0
    if together == expr.obligations and expr.high is None and not alone:
        return True
    fewest = {0: 0}  # set of obligations -> fewest entries that discharge it, besides those of required slots
    for slot, discharged in slots.items():
        if not any(discharged):
            continue
        for _ in range(MAX_INTERLEAVE_OBLIGATIONS if slot is None else 1):
            before = dict(fewest)
            for met, count in before.items():
                for obligations in discharged:
                    more = count + (slot not in expr.required)
                    fewest[met | obligations] = min(fewest.get(met | obligations, more), more)
            if fewest == before:
                break
    if expr.obligations not in fewest:
        return False
    least = max(expr.low, len(expr.required) + fewest[expr.obligations])
    return (expr.high is None or least <= expr.high) and (least <= 1 or not alone)


def remainder_after(expr: ir.Interleave, entry: ir.InterleaveEntry) -> ir.Expr:
    """The remainder of an interleave after its first entry.

    Raises:
        UnsupportedConstraint: it has distinct entries.
    """
    done, more = rest_behind(expr, entry)
    return ir.choice(ir.EPSILON if done else ir.EMPTY_LANGUAGE, ir.sequence(expr.separator, more))


def rest_behind(expr: ir.Interleave, entry: ir.InterleaveEntry) -> tuple[bool, ir.Expr]:
    """Whether this first entry may be the last one, and the interleave after the next separator otherwise."""
    if any(other.distinct for other in expr.entries):
        raise UnsupportedConstraint(
            "an interleave with distinct entries cannot be expanded",
            Problem("interleave", "later entries depend on the values of earlier ones"),
        )
    slot = entry.slot

    def open_still(other: ir.InterleaveEntry) -> bool:
        if slot is None or other.slot is None:
            return other.slot is None or not expr.ordered
        return other.slot > slot if expr.ordered else other.slot != slot

    required = [other for other in expr.required if other != slot]
    obligations = expr.obligations & ~entry.discharges
    low = max(expr.low - 1, 0)
    more = interleave(
        filter(open_still, expr.entries),
        required=required,
        obligations=obligations,
        low=max(low, 1),
        high=None if expr.high is None else expr.high - 1,
        separator=expr.separator,
        ordered=expr.ordered,
    )
    return not (required or obligations or low), more


def is_distinct(expr: ir.Expr) -> bool:
    """Whether an expression says that values must differ: an interleave with distinct entries, or a mark."""
    return isinstance(expr, ir.Mark) or (
        isinstance(expr, ir.Interleave) and any(entry.distinct for entry in expr.entries)
    )


def reject_distinct_entries(grammar: ir.Grammar, where: str) -> None:
    """Checks that no interleave of a grammar has distinct entries, and no array has marks.

    Raises:
        UnsupportedConstraint: there are some.
    """
    known: dict[ir.Expr, bool] = {}
    for name, body in grammar.rules.items():
        if fold(
            body,
            children,
            lambda expr, known: is_distinct(expr) or any(known[part] for part in children(expr)),
            known,
        ):
            raise UnsupportedConstraint(
                f"items or keys that must be distinct cannot be used {where}",
                Problem(f"rule {name}", "the values of earlier ones are not recorded there"),
                action='leave out uniqueItems and minProperties, or in Python make it with lexer="dynamic"',
            )
