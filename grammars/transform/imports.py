"""Imports the rules of one grammar into those of another."""

from __future__ import annotations

from collections.abc import Mapping

from constrained.grammars import ir
from constrained.grammars.lexer import reject_lexer_grammar
from constrained.grammars.visit import children, fold, with_children


def import_rules(grammar: ir.Grammar, rules: dict[str, ir.Expr], *, place: str = "") -> ir.Expr:
    """Adds the rules of a grammar, renamed where a name is taken; returns the call of its start.

    Args:
        grammar: the rules to add.
        rules: where to add them.
        place: part of a new name, so that many grammars with equal names get theirs at once.

    Raises:
        UnsupportedConstraint: the grammar has a lexer.
    """
    reject_lexer_grammar(grammar, "among the rules of another")
    names: dict[str, str] = {}
    names_in_use = {*rules, *grammar.rules}
    for name in grammar.rules:
        new = f"{place} {name}" if place else name
        names[name] = fresh_name(new, names_in_use) if name in rules else name
        names_in_use.add(names[name])
    if all(name == new for name, new in names.items()):
        rules.update(grammar.rules)
        return ir.call(grammar.start)
    rules.update(_renamed(grammar, names))
    return ir.call(names[grammar.start])


def placed_rules(grammar: ir.Grammar, place: str) -> ir.Grammar:
    """The grammar, with the place in front of the name of every rule.

    Raises:
        UnsupportedConstraint: the grammar has a lexer.
    """
    reject_lexer_grammar(grammar, "among the rules of another")
    names = {name: f"{place} {name}" for name in grammar.rules}
    return ir.Grammar(_renamed(grammar, names), names[grammar.start])


def _renamed(grammar: ir.Grammar, names: Mapping[str, str]) -> dict[str, ir.Expr]:
    """The rules under other names."""
    renamed: dict[ir.Expr, ir.Expr] = {}

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if isinstance(expr, ir.Call):
            return ir.call(names[expr.rule])
        parts = tuple(known[part] for part in children(expr))
        return with_children(expr, parts)

    return {names[name]: fold(body, children, value, renamed) for name, body in grammar.rules.items()}


def fresh_name(name: str, names_in_use: set[str] | dict[str, ir.Expr]) -> str:
    """A name that no rule has yet."""
    while name in names_in_use:
        name += "'"
    return name
