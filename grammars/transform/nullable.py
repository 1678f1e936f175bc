"""Removal of epsilon: from expressions, from rules, and from the bodies of loops.

Nullable parts hide left recursion, and let a loop iterate without reading. `EpsilonRemover` finds the nullable rules and
defines rules for their non-empty strings.
"""

from __future__ import annotations

from collections.abc import Mapping

from constrained.grammars import ir
from constrained.grammars.regex import analysis
from constrained.grammars.transform.interleave import interleave, interleave_nullable
from constrained.grammars.visit import calls, children, fold, strongly_connected_components, with_children


class EpsilonRemover:
    """The nullable rules, and rules for their non-empty strings.

    Attributes:
        rules: the given rules and the ones defined so far; complete after `define_pending`.
    """

    def __init__(self, rules: Mapping[str, ir.Expr]) -> None:
        self.rules = dict(rules)
        self._empty = _nullable_rules(rules)
        self._nullable: dict[ir.Expr, bool] = {}
        self._solid: dict[ir.Expr, ir.Expr] = {}
        self._names: dict[str, str] = {}

    def rule_nullable(self, rule: str) -> bool:
        """Whether a rule is nullable."""
        return rule in self._empty

    def nullable(self, expr: ir.Expr) -> bool:
        """Whether an expression is nullable."""
        return fold(
            expr, children, lambda node, known: _may_be_empty(node, known, self._empty), self._nullable
        )

    def nonempty_rule(self, rule: str) -> str:
        """The name of the rule for the non-empty strings of `rule`: the rule itself if it is not nullable."""
        if rule not in self._empty:
            return rule
        if rule not in self._names:
            self._names[rule] = self.fresh_name(f"{rule} (not empty)")
        return self._names[rule]

    def fresh_name(self, name: str) -> str:
        """A name that no rule has yet."""
        while name in self.rules or name in self._names.values():
            name += "'"
        return name

    def remove_epsilon(self, expr: ir.Expr) -> ir.Expr:
        """The non-empty strings of an expression."""
        return fold(expr, self._below, self._value, self._solid)

    def define_pending(self) -> None:
        """Defines all rules that were named but not defined yet."""
        open_names = list(self._names.items())
        for rule, name in open_names:
            if name not in self.rules:
                before = len(self._names)
                self.rules[name] = self.remove_epsilon(self.rules[rule])
                open_names.extend(list(self._names.items())[before:])

    def _below(self, expr: ir.Expr) -> tuple[ir.Expr, ...]:
        if not self.nullable(expr) or isinstance(expr, ir.Interleave):
            return ()
        if isinstance(expr, ir.Loop) and not self.nullable(expr.part):
            return ()
        return tuple(part for part in children(expr) if self.nullable(part))

    def _value(self, expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        if not self.nullable(expr):
            return expr
        if isinstance(expr, ir.Terminal):
            return ir.Terminal(remove_empty_string(expr.regex))
        if isinstance(expr, ir.Call):
            return ir.Call(self.nonempty_rule(expr.rule))
        if isinstance(expr, ir.Choice):
            return ir.choice(*(known.get(part, part) for part in expr.parts))
        if isinstance(expr, ir.Loop):
            return ir.loop(known.get(expr.part, expr.part), 1, expr.high)
        if isinstance(expr, ir.Interleave):  # of which no entry is empty
            return interleave(
                expr.entries, low=1, high=expr.high, separator=expr.separator, ordered=expr.ordered
            )
        assert isinstance(expr, ir.Sequence)
        whole: ir.Expr = ir.EMPTY_LANGUAGE
        rest: ir.Expr = ir.EPSILON  # the first part that is not empty, whichever it is
        for part in reversed(expr.parts):
            whole = ir.choice(ir.sequence(known[part], rest), whole)
            rest = ir.sequence(part, rest)
        return whole


def _may_be_empty(expr: ir.Expr, known: Mapping[ir.Expr, bool], empty: set[str]) -> bool:
    if isinstance(expr, ir.Terminal):
        return analysis.nullable(expr.regex)
    if isinstance(expr, ir.Call):
        return expr.rule in empty
    if isinstance(expr, ir.Loop):
        return expr.low == 0 or known[expr.part]
    if isinstance(expr, ir.Interleave):
        return interleave_nullable(expr)
    assert isinstance(expr, (ir.Sequence, ir.Choice))
    return (all if isinstance(expr, ir.Sequence) else any)(known[part] for part in expr.parts)


def _nullable_rules(rules: Mapping[str, ir.Expr]) -> set[str]:
    empty: set[str] = set()

    def value(expr: ir.Expr, known: dict[ir.Expr, bool]) -> bool:
        return _may_be_empty(expr, known, empty)

    for component in strongly_connected_components(
        {name: calls(body) for name, body in rules.items()}
    ):  # callees first
        newly_nullable = set(component)
        while newly_nullable:
            known: dict[ir.Expr, bool] = {}
            left = [name for name in component if name not in empty]
            newly_nullable = {name for name in left if fold(rules[name], children, value, known)}
            empty.update(newly_nullable)
    return empty


def remove_empty_string(regex: ir.Regex) -> ir.Regex:
    """The non-empty strings of a regular expression."""
    return fold(regex, _nullable_parts, _solid_regex, {})


def _nullable_parts(regex: ir.Regex) -> tuple[ir.Regex, ...]:
    if not isinstance(regex, (ir.Concat, ir.Union, ir.Repeat)) or not analysis.nullable(regex):
        return ()
    return tuple(part for part in analysis.children(regex) if analysis.nullable(part))


def _solid_regex(regex: ir.Regex, known: dict[ir.Regex, ir.Regex]) -> ir.Regex:
    if not analysis.nullable(regex):
        return regex
    if isinstance(regex, ir.Literal):
        return ir.EMPTY_SET
    if isinstance(regex, ir.Union):
        return ir.union(*(known.get(part, part) for part in regex.parts))
    if isinstance(regex, ir.Repeat):
        return ir.repeat(known.get(regex.part, regex.part), 1, regex.high)
    if isinstance(regex, ir.Concat):
        whole: ir.Regex = ir.EMPTY_SET
        rest: ir.Regex = ir.EMPTY_STRING
        for part in reversed(regex.parts):
            whole = ir.union(ir.concat(known[part], rest), whole)
            rest = ir.concat(part, rest)
        return whole
    return ir.difference(regex, ir.EMPTY_STRING)


def remove_nullable_loops(grammar: ir.Grammar) -> ir.Grammar:
    """An equivalent grammar without nullable loop bodies: an empty iteration costs a step and reads nothing.

    Returns the grammar itself if it has no such loop.
    """
    nonempty = EpsilonRemover(grammar.rules)
    cache: dict[ir.Expr, ir.Expr] = {}

    def value(expr: ir.Expr, known: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        parts = tuple(known[part] for part in children(expr))
        if isinstance(expr, ir.Loop):
            if nonempty.nullable(expr.part):
                return ir.loop(nonempty.remove_epsilon(parts[0]), 0, expr.high)
            return expr if parts == (expr.part,) else ir.loop(parts[0], expr.low, expr.high)
        if parts == children(expr):
            return expr
        if isinstance(expr, ir.Interleave):
            return with_children(expr, parts)
        return (ir.sequence if isinstance(expr, ir.Sequence) else ir.choice)(*parts)

    for name, body in grammar.rules.items():
        nonempty.rules[name] = fold(body, children, value, cache)
    if all(nonempty.rules[name] is body for name, body in grammar.rules.items()):
        return grammar
    nonempty.define_pending()
    return ir.Grammar(nonempty.rules, grammar.start)
