"""`expand_interleaves`: interleaves as plain rules, which judges read that know none."""

from __future__ import annotations

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.transform.interleave import interleave_nullable, rest_behind
from constrained.grammars.visit import children, fold, with_children

_MAX_EXPANDED = 20_000


def expand_interleaves(grammar: ir.Grammar) -> ir.Grammar:
    """An equivalent grammar without interleaves, with a rule for every set of slots; for few slots only.

    Raises:
        ConstraintTooLarge: there are too many sets.
        UnsupportedConstraint: an interleave has distinct entries.
    """
    names: dict[tuple[object, ...], str] = {}
    rules: dict[str, ir.Expr] = {}
    pending: list[tuple[str, ir.Interleave]] = []

    def name(expr: ir.Interleave) -> str:
        parts = tuple((e.head, e.body, e.slot, e.discharges, e.distinct) for e in expr.entries)
        key = (parts, expr.required, expr.obligations, expr.low, expr.high, expr.separator, expr.ordered)
        if key not in names:
            if len(names) >= _MAX_EXPANDED:
                raise ConstraintTooLarge("an interleave has too many states to be expanded")
            names[key] = f"interleave {len(names)}"
            while names[key] in grammar.rules:
                names[key] += "'"
            pending.append((names[key], expr))
        return names[key]

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        parts = tuple(known[part] for part in children(expr))
        rebuilt = expr if parts == children(expr) else with_children(expr, parts)
        return ir.Call(name(rebuilt)) if isinstance(rebuilt, ir.Interleave) else rebuilt

    known: dict[ir.Expr, ir.Expr] = {}
    for rule, body in grammar.rules.items():
        rules[rule] = fold(body, children, value, known)
    while pending:
        rule, expr = pending.pop()
        options: list[ir.Expr] = [ir.EPSILON] if interleave_nullable(expr) else []
        for entry in expr.entries:
            done, more = rest_behind(expr, entry)
            rest = ir.sequence(
                expr.separator, ir.Call(name(more)) if isinstance(more, ir.Interleave) else more
            )
            end = ir.EPSILON if done else ir.EMPTY_LANGUAGE
            options.append(ir.sequence(entry.head, entry.body, ir.choice(end, rest)))
        rules[rule] = ir.choice(*options)
    return ir.Grammar(rules, grammar.start) if names else grammar
