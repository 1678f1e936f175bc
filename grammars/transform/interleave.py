"""Bags: entries in any order, at most one to a slot, counted (`ir.Bag`).

Keys of an object, or items that must differ: n of them in any order would be 2^n rules. The core keeps the open slots
in a set instead, and makes only the sets that a text comes to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grammars import ir
from grammars.errors import ConstraintTooLarge, Problem, UnsupportedConstraint
from grammars.visit import children, fold, with_children

MAX_INTERLEAVE_OBLIGATIONS = 12
"""Most marks of one bag: a shortest text is searched over their subsets."""
MAX_DISTINCT_ENTRIES = 256
"""Most entries that must come and differ from each other: the core looks for the shortest of them."""
_MAX_UNFOLDED = 20_000


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
    """Entries in any order; see `ir.Bag` for the arguments. Entries that nothing can be are left out.

    Raises:
        ConstraintTooLarge: `low` exceeds `ir.MAX_COUNT`, or there are more than `MAX_INTERLEAVE_OBLIGATIONS` marks.
    """
    low, high = ir.count_bounds(low, high)
    if obligations.bit_length() > MAX_INTERLEAVE_OBLIGATIONS:
        raise ConstraintTooLarge(
            "too many things are asked of the entries of one object or array",
            Problem("bag", f"{obligations.bit_length()} marks; at most {MAX_INTERLEAVE_OBLIGATIONS}"),
        )
    kept = tuple(
        entry
        for entry in entries
        if entry.head is not ir.EMPTY_LANGUAGE and entry.body is not ir.EMPTY_LANGUAGE
    )
    made = ir.Interleave(kept, tuple(sorted(set(required))), obligations, low, high, separator, ordered)
    if not interleave_satisfiable(made, kept, alone=separator is ir.EMPTY_LANGUAGE):
        return ir.EMPTY_LANGUAGE
    return made if kept and high != 0 else ir.EPSILON


def interleave_nullable(expr: ir.Interleave) -> bool:
    """Whether no entry must come."""
    return not (expr.required or expr.marks or expr.low)


def interleave_satisfiable(
    expr: ir.Interleave, entries: Sequence[ir.InterleaveEntry], *, alone: bool = False
) -> bool:
    """Whether these of the entries of a bag make up one of its texts; `alone`: at most one of them."""
    slots: dict[int | None, list[int]] = {}
    for entry in entries:
        slots.setdefault(entry.slot, []).append(entry.marks & expr.marks)
    most = len(slots) if None not in slots else None
    if any(slot not in slots for slot in expr.required) or (most is not None and expr.low > most):
        return False
    whole = 0  # what comes of it when every slot brings all that it may, as far as one entry does
    for brought in slots.values():
        most_marks = 0
        for marks in brought:
            most_marks |= marks
        whole |= most_marks if most_marks in brought else 0
    if whole == expr.marks and expr.high is None and not alone:
        return True
    fewest = {0: 0}  # marks set -> fewest entries that do so, besides those of needed slots
    for slot, brought in slots.items():
        if not any(brought):
            continue
        for _ in range(MAX_INTERLEAVE_OBLIGATIONS if slot is None else 1):
            before = dict(fewest)
            for held, count in before.items():
                for marks in brought:
                    more = count + (slot not in expr.required)
                    fewest[held | marks] = min(fewest.get(held | marks, more), more)
            if fewest == before:
                break
    if expr.marks not in fewest:
        return False
    least = max(expr.low, len(expr.required) + fewest[expr.marks])
    return (expr.high is None or least <= expr.high) and (least <= 1 or not alone)


def remainder_after(expr: ir.Interleave, entry: ir.InterleaveEntry) -> ir.Expr:
    """What is left of a bag after its first entry.

    Raises:
        UnsupportedConstraint: some of its entries must differ.
    """
    done, more = _rest(expr, entry)
    return ir.choice(ir.EPSILON if done else ir.EMPTY_LANGUAGE, ir.sequence(expr.separator, more))


def _rest(expr: ir.Interleave, entry: ir.InterleaveEntry) -> tuple[bool, ir.Expr]:
    """Whether the first entry of a bag may be the last, and what may come after the next separator otherwise."""
    if any(other.distinct for other in expr.entries):
        raise UnsupportedConstraint(
            "a bag whose entries must differ cannot be taken apart",
            Problem("bag", "later entries depend on the text of earlier ones"),
        )
    slot = entry.slot

    def open_still(other: ir.InterleaveEntry) -> bool:
        if slot is None or other.slot is None:
            return other.slot is None or not expr.ordered
        return other.slot > slot if expr.ordered else other.slot != slot

    needed = [other for other in expr.required if other != slot]
    marks = expr.marks & ~entry.marks
    low = max(expr.low - 1, 0)
    more = interleave(
        filter(open_still, expr.entries),
        required=needed,
        obligations=marks,
        low=max(low, 1),
        high=None if expr.high is None else expr.high - 1,
        separator=expr.separator,
        ordered=expr.ordered,
    )
    return not (needed or marks or low), more


def reject_distinct_entries(grammar: ir.Grammar, where: str) -> None:
    """Sees to it that no bag of a grammar has entries that must differ.

    Raises:
        UnsupportedConstraint: one has.
    """
    known: dict[ir.Expr, None] = {}
    for name, body in grammar.rules.items():
        fold(body, children, lambda expr, known: None, known)
        for expr in known:
            if isinstance(expr, ir.Interleave) and any(entry.distinct for entry in expr.entries):
                raise UnsupportedConstraint(
                    f"items or keys that must differ cannot stand {where}",
                    Problem(f"rule {name}", "what was read of earlier ones is not kept there"),
                    action='leave out uniqueItems and minProperties, or make it with lexer="dynamic"',
                )


def expand_interleaves(grammar: ir.Grammar) -> ir.Grammar:
    """The same texts without bags, by a rule for every set of slots: for judges, and for few slots only.

    Raises:
        ConstraintTooLarge: there are too many sets.
        UnsupportedConstraint: entries of a bag must differ.
    """
    names: dict[tuple[object, ...], str] = {}
    rules: dict[str, ir.Expr] = {}
    pending: list[tuple[str, ir.Interleave]] = []

    def name(expr: ir.Interleave) -> str:
        parts = tuple((e.head, e.body, e.slot, e.marks, e.distinct) for e in expr.entries)
        key = (parts, expr.required, expr.marks, expr.low, expr.high, expr.separator, expr.ordered)
        if key not in names:
            if len(names) >= _MAX_UNFOLDED:
                raise ConstraintTooLarge("a bag has too many states to be unfolded")
            names[key] = f"bag {len(names)}"
            while names[key] in grammar.rules:
                names[key] += "'"
            pending.append((names[key], expr))
        return names[key]

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        parts = tuple(known[part] for part in children(expr))
        made = expr if parts == children(expr) else with_children(expr, parts)
        return ir.Call(name(made)) if isinstance(made, ir.Interleave) else made

    known: dict[ir.Expr, ir.Expr] = {}
    for rule, body in grammar.rules.items():
        rules[rule] = fold(body, children, value, known)
    while pending:
        rule, expr = pending.pop()
        options: list[ir.Expr] = [ir.EPSILON] if interleave_nullable(expr) else []
        for entry in expr.entries:
            done, more = _rest(expr, entry)
            rest = ir.sequence(
                expr.separator, ir.Call(name(more)) if isinstance(more, ir.Interleave) else more
            )
            end = ir.EPSILON if done else ir.EMPTY_LANGUAGE
            options.append(ir.sequence(entry.head, entry.body, ir.choice(end, rest)))
        rules[rule] = ir.choice(*options)
    return ir.Grammar(rules, grammar.start) if names else grammar
