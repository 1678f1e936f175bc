"""Which rules derive some text, against the definition: rounds over whole expressions until nothing changes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given

from constrained.grammars import ir
from constrained.grammars.errors import UnsupportedConstraint
from constrained.grammars.transform import interleave as transform_interleave
from constrained.grammars.transform import productive
from constrained.grammars.transform.interleave import (
    interleave,
    interleave_satisfiable,
    is_distinct,
    reject_distinct_entries,
)
from constrained.grammars.transform.productive import productive_rules, prune_unproductive
from constrained.grammars.visit import children, postorder
from tests.support import strategies as some


def derives(expr: ir.Expr, alive: set[str]) -> bool:
    """By definition; expressions of tests are shallow."""
    if isinstance(expr, ir.Terminal):
        return not isinstance(expr.regex, ir.EmptySet)
    if isinstance(expr, ir.Call):
        return expr.rule in alive
    if isinstance(expr, ir.Sequence):
        return all(derives(part, alive) for part in expr.parts)
    if isinstance(expr, ir.Choice):
        return any(derives(part, alive) for part in expr.parts)
    if isinstance(expr, ir.Interleave):
        lists = (
            chosen
            for size in range(5)
            for chosen in itertools.product(expr.entries, repeat=size)
            if some.keeps_the_rules(expr, chosen)
        )
        return any(
            all(derives(part, alive) for entry in chosen for part in (entry.head, entry.body))
            and (len(chosen) < 2 or derives(expr.separator, alive))
            for chosen in lists
        )
    assert isinstance(expr, ir.Loop)
    return expr.low == 0 or derives(expr.part, alive)


def by_definition(grammar: ir.Grammar) -> set[str]:
    alive: set[str] = set()
    while more := {name for name, body in grammar.rules.items() if derives(body, alive)} - alive:
        alive |= more
    return alive


@given(some.grammars(left_recursion=True))
def test_the_rules_that_derive_a_text_are_those_of_the_definition(grammar: ir.Grammar) -> None:
    alive = by_definition(grammar)
    assert productive_rules(grammar.rules) == alive
    assert productive_rules(grammar.rules, alive) == alive


@pytest.mark.ci
@given(some.grammars(left_recursion=True))
def test_pruning_keeps_exactly_those_rules(grammar: ir.Grammar) -> None:
    alive = by_definition(grammar)
    kept = prune_unproductive(grammar)
    assert set(kept.rules if kept else ()) == (alive if grammar.start in alive else set())


def test_a_rule_that_needs_itself_derives_nothing() -> None:
    grammar = ir.Grammar(
        {
            "start": ir.choice(ir.call("endless"), ir.terminal("a")),
            "endless": ir.sequence(ir.terminal("("), ir.call("endless")),
        },
        "start",
    )
    kept = prune_unproductive(grammar)
    assert kept is not None
    assert list(kept.rules) == ["start"]


def orders(count: int) -> dict[str, list[int]]:
    shuffled = random.Random(1).sample(range(count), count)
    return {
        "called first": [*range(count)],
        "callers first": [*reversed(range(count))],
        "shuffled": shuffled,
        "to and fro": [at // 2 if at % 2 else count - 1 - at // 2 for at in range(count)],
    }


def read(rules: dict[str, ir.Expr], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the parts of an expression are asked for."""
    asked = 0

    def count(node: ir.Expr) -> tuple[ir.Expr, ...]:
        nonlocal asked
        asked += 1
        return children(node)

    monkeypatch.setattr(productive, "children", count)
    assert productive.productive_rules(rules) == set(rules)
    return asked


@pytest.mark.parametrize("order", orders(0))
def test_each_expression_is_read_once_whatever_the_order_of_the_rules(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain, and one rule that calls all others."""
    bodies = [
        ir.terminal("a"),
        *(ir.sequence(ir.terminal("b"), ir.call(f"r{i - 1}")) for i in range(1, 400)),
        ir.sequence(*(ir.call(f"r{i}") for i in range(400))),
        ir.choice(*(ir.sequence(ir.call(f"r{i}"), ir.call("r400")) for i in range(400))),
    ]
    rules = {f"r{i}": bodies[i] for i in orders(len(bodies))[order]}
    nodes = sum(1 for body in bodies for _ in postorder(body))
    assert read(rules, monkeypatch) <= 3 * nodes


def test_an_interleave_is_asked_again_only_where_something_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def satisfiable(*args: Any, **more: Any) -> bool:
        nonlocal asked
        asked += 1
        return interleave_satisfiable(*args, **more)

    monkeypatch.setattr(productive, "interleave_satisfiable", satisfiable)
    entries = [ir.InterleaveEntry(ir.terminal("a"), ir.call(f"r{i}"), i) for i in range(200)]
    rules = {"all": ir.Interleave(tuple(entries), tuple(range(200)), 0, 0, None, ir.EPSILON, False)}
    rules |= {"r0": ir.terminal("a")} | {f"r{i}": ir.call(f"r{i - 1}") for i in range(1, 200)}
    for order in (rules, dict(reversed(rules.items()))):
        assert productive_rules(order) == set(rules)
    assert asked <= 4


def test_rules_behind_a_lexer_are_searched_for_distinct_entries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def count(expr: ir.Expr) -> bool:
        nonlocal asked
        asked += 1
        return is_distinct(expr)

    monkeypatch.setattr(transform_interleave, "is_distinct", count)
    bodies = {f"r{i}": ir.sequence(ir.terminal("b"), ir.call(f"r{i - 1}")) for i in range(1, 200)}
    reject_distinct_entries(ir.Grammar(bodies, "r1"), "here")
    assert asked <= sum(1 for body in bodies.values() for _ in postorder(body))
    distinct = ir.InterleaveEntry(ir.terminal("a"), ir.EPSILON, distinct=True)
    bodies["r0"] = ir.sequence(ir.terminal("b"), interleave([distinct]))
    with pytest.raises(UnsupportedConstraint, match="rule r0"):
        reject_distinct_entries(ir.Grammar(bodies, "r1"), "here")
