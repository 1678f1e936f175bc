"""Letters of counted texts, as often as the texts have tokens at least: then the lengths of the rules count these tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from constrained.grammars import ir
from constrained.grammars.regex import analysis
from constrained.grammars.visit import children, fold, with_children


def with_repeated_letters(outer: ir.Grammar, counts: Mapping[bytes, int]) -> ir.Grammar:
    """Rules in which each letter stands as often as these counts say; `outer` itself if there are none."""
    if not counts:
        return outer
    known: dict[ir.Expr, ir.Expr] = {}
    regexes: dict[ir.Regex, ir.Regex] = {}

    def repeated(regex: ir.Regex, known: dict[ir.Regex, ir.Regex]) -> ir.Regex:
        if isinstance(regex, ir.Literal):
            data = regex.data
            for letter, count in counts.items():
                data = data.replace(letter, letter * count)
            return regex if data == regex.data else ir.literal(data)
        parts = tuple(known[part] for part in analysis.children(regex))
        if parts == analysis.children(regex):
            return regex
        if isinstance(regex, ir.Repeat):
            return ir.repeat(parts[0], regex.low, regex.high)
        assert isinstance(regex, (ir.Concat, ir.Union))  # letters stand in what rules joined
        return (ir.concat if isinstance(regex, ir.Concat) else ir.union)(*parts)

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if isinstance(expr, ir.Terminal):
            regex = fold(expr.regex, analysis.children, repeated, regexes)
            return expr if regex is expr.regex else ir.Terminal(regex)
        parts = tuple(known[part] for part in children(expr))
        return expr if parts == children(expr) else with_children(expr, parts)

    return replace(
        outer, rules={name: fold(body, children, value, known) for name, body in outer.rules.items()}
    )
