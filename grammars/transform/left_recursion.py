"""Exact removal of left recursion: the language does not change.

The core expands a rule before it reads a byte, so left recursion would not terminate. The rules of one left-recursive
component (A, B, ...) are a system of equations, A = N_A | A R_AA | B R_BA | ..., where N_A begins with none of them: a
string of A is a seed N_B followed by steps R that lead from B to A. So

    A           -> N_A (A after A) | N_B (A after B) | ...
    A after B   -> (R_BB)* ( epsilon, if A is B  |  R_BC (A after C) | ... )

A seed must not be empty, or recursion would stay hidden behind it: all of this is applied to the non-empty strings, and
A -> (non-empty A) | epsilon where A is nullable.

Sources: Arden 1961, "Delayed-logic and finite-state machines" (the equation's solution); Rosenkrantz and Lewis 1970,
"Deterministic left corner parsing" (from the left corner up to the rule).
"""

from __future__ import annotations

from collections.abc import Mapping

from constrained.grammars import ir
from constrained.grammars.errors import ConstraintTooLarge, Problem
from constrained.grammars.transform.interleave import remainder_after
from constrained.grammars.transform.nullable import EpsilonRemover
from constrained.grammars.visit import children, drop_unreachable, fold, strongly_connected_components

_MAX_STEPS = 200_000
"""Steps between rules that one component may need; their number grows with the cube of its size."""

LeftCornerSplit = tuple[ir.Expr, dict[str, ir.Expr]]
"""The strings that begin with no rule of the component; and by left-corner rule of the component, what follows it."""


def remove_left_recursion(grammar: ir.Grammar) -> ir.Grammar:
    """An equivalent grammar without left recursion.

    Handles direct, indirect and hidden left recursion (behind nullable parts), cycles of unit rules and empty rules. Every
    rule keeps its name and its language. A grammar without left recursion is returned unchanged.

    Raises:
        KeyError: a rule that is called does not exist.
        ConstraintTooLarge: a left-recursive component is too large.
    """
    nonempty = EpsilonRemover(grammar.rules)
    edges = {name: _first_calls(body, nonempty) for name, body in grammar.rules.items()}
    components = [
        component for component in strongly_connected_components(edges) if _recurs(set(component), edges)
    ]
    if not components:
        return grammar
    for component in components:
        _LeftRecursiveComponent(component, nonempty).rewrite()
    nonempty.define_pending()
    return drop_unreachable(ir.Grammar(nonempty.rules, grammar.start))


def _recurs(component: set[str], edges: Mapping[str, Mapping[str, bool]]) -> bool:
    """Whether something can follow a call of a rule by another one of the component."""
    return any(more and callee in component for rule in component for callee, more in edges[rule].items())


def _first_calls(body: ir.Expr, nonempty: EpsilonRemover) -> dict[str, bool]:
    """Rules that a rule may call before it reads a byte; by rule, whether something can follow such a call."""
    calls: dict[str, bool] = {}
    visited: set[tuple[ir.Expr, bool]] = set()
    stack = [(body, False)]
    while stack:
        expr, more = stack.pop()
        if (expr, more) in visited:
            continue
        visited.add((expr, more))
        if isinstance(expr, ir.Call):
            calls[expr.rule] = calls.get(expr.rule, False) or more
        elif isinstance(expr, ir.Choice):
            stack.extend((part, more) for part in expr.parts)
        elif isinstance(expr, ir.Loop):
            stack.append((expr.part, more or expr.high != 1))
        elif isinstance(expr, ir.Interleave):
            stack.extend((entry.head, True) for entry in expr.entries)
        elif isinstance(expr, ir.Sequence):
            for index, part in enumerate(expr.parts):
                stack.append((part, more or index + 1 < len(expr.parts)))
                if not nonempty.nullable(part):
                    break
    return calls


class _LeftRecursiveComponent:
    """Rules that are left-recursive through one another."""

    def __init__(self, rules: list[str], nonempty: EpsilonRemover) -> None:
        self.rules = rules
        self.nonempty = nonempty
        self.members = set(rules)
        self.touching: dict[ir.Expr, bool] = {}
        self.splits: dict[ir.Expr, LeftCornerSplit] = {}

    def rewrite(self) -> None:
        """Replaces the rules of the component."""
        nonempty = self.nonempty
        split = {rule: self.split(nonempty.rules[rule]) for rule in self.rules}
        if sum(len(steps) for _, steps in split.values()) * len(self.rules) > _MAX_STEPS:
            raise ConstraintTooLarge(
                "the grammar is too left-recursive",
                Problem(
                    f"rule {self.rules[0]}", f"{len(self.rules)} rules are left-recursive through one another"
                ),
                action="write some of the recursion on the right, or as a repetition",
            )
        bodies = {}
        for rule in self.rules:
            after = self.after(rule, split)
            seeds = ((start, split[start][0]) for start in self.rules)
            bodies[rule] = ir.choice(
                *(ir.sequence(seed, after[start]) for start, seed in seeds if start in after)
            )
        for rule, body in bodies.items():
            solid = nonempty.nonempty_rule(rule)
            nonempty.rules[solid] = body
            if solid != rule:
                nonempty.rules[rule] = ir.choice(ir.EPSILON, ir.Call(solid))

    def after(self, target: str, split: dict[str, LeftCornerSplit]) -> dict[str, ir.Expr]:
        """By left-corner rule of the strings of `target`: what follows it."""
        steps: dict[str, dict[str, ir.Expr]] = {rule: {} for rule in self.rules}  # from, to -> what to read
        for rule in self.rules:
            for start, rest in split[rule][1].items():
                steps[start][rule] = rest
        leading = {target}  # rules that lead to the target
        for rule in (queue := [target]):
            for start in split[rule][1]:
                if start not in leading:
                    leading.add(start)
                    queue.append(start)
        alone = len(leading) == 1
        names = {rule: self.nonempty.fresh_name(f"{target} after {rule}") for rule in leading}
        for rule in leading:
            again = ir.loop(self.nonempty.remove_epsilon(steps[rule].get(rule, ir.EMPTY_LANGUAGE)))
            ends = [ir.EPSILON] if rule == target else []
            onward = (
                ir.sequence(rest, ir.Call(names[step]))
                for step, rest in steps[rule].items()
                if step != rule and step in leading
            )
            body = ir.sequence(again, ir.choice(*ends, *onward))
            if alone:
                return {rule: body}
            self.nonempty.rules[names[rule]] = body
        return {rule: ir.Call(names[rule]) for rule in leading}

    # ------------------------------------------------------------ left corners of an expression

    def split(self, expr: ir.Expr) -> LeftCornerSplit:
        """The non-empty strings of `expr`, split by left corner."""
        return fold(expr, self._parts, self._split, self.splits)

    def touches(self, expr: ir.Expr) -> bool:
        """Whether a string of `expr` may begin with a rule of the component."""
        return fold(expr, self._first, self._touches, self.touching)

    def _first(self, expr: ir.Expr) -> tuple[ir.Expr, ...]:
        if isinstance(expr, ir.Sequence):
            for index, part in enumerate(expr.parts):
                if not self.nonempty.nullable(part):
                    return expr.parts[: index + 1]
        if isinstance(expr, ir.Interleave):
            return tuple(entry.head for entry in expr.entries)
        return children(expr)

    def _touches(self, expr: ir.Expr, known: dict[ir.Expr, bool]) -> bool:
        if isinstance(expr, ir.Call):
            return expr.rule in self.members
        return any(known[part] for part in self._first(expr))

    def _parts(self, expr: ir.Expr) -> tuple[ir.Expr, ...]:
        return self._first(expr) if self.touches(expr) else ()

    def _split(self, expr: ir.Expr, known: dict[ir.Expr, LeftCornerSplit]) -> LeftCornerSplit:
        nonempty = self.nonempty
        if not self.touches(expr):
            return nonempty.remove_epsilon(expr), {}
        if isinstance(expr, ir.Call):
            return ir.EMPTY_LANGUAGE, {expr.rule: ir.EPSILON}
        pieces: list[tuple[LeftCornerSplit, ir.Expr]] = []  # and what follows each
        if isinstance(expr, ir.Choice):
            pieces = [(known[part], ir.EPSILON) for part in expr.parts]
        elif isinstance(expr, ir.Loop):
            low, high = max(expr.low - 1, 0), None if expr.high is None else expr.high - 1
            part = expr.part
            if nonempty.nullable(part):
                low, part = 0, nonempty.remove_epsilon(part)
            pieces = [(known[expr.part], ir.loop(part, low, high))]
        elif isinstance(expr, ir.Interleave):
            pieces = [
                (known[entry.head], ir.sequence(entry.body, remainder_after(expr, entry)))
                for entry in expr.entries
            ]
        else:
            assert isinstance(expr, ir.Sequence)
            rest = ir.sequence(*expr.parts[len(self._first(expr)) :])
            for part in reversed(self._first(expr)):
                pieces.append((known[part], rest))
                rest = ir.sequence(part, rest)
        seeds: list[ir.Expr] = []
        steps: dict[str, list[ir.Expr]] = {}
        for (seed, later), rest in pieces:
            seeds.append(ir.sequence(seed, rest))
            for rule, follow in later.items():
                steps.setdefault(rule, []).append(ir.sequence(follow, rest))
        return ir.choice(*seeds), {rule: ir.choice(*follows) for rule, follows in steps.items()}
