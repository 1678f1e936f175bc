"""Which rules derive some text, against the definition: rounds over whole expressions until nothing changes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from grammars import ir
from grammars.transform import productive
from grammars.transform.productive import productive_rules, prune_unproductive
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


@pytest.mark.parametrize("callers_first", [False, True])
def test_a_chain_of_rules_is_gone_through_a_few_times(
    callers_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    derives = productive._derives

    def count(root: ir.Expr, known_productive: set[str], known: set[int]) -> bool:
        asked.append(root)
        return derives(root, known_productive, known)

    monkeypatch.setattr(productive, "_derives", count)
    rules = {"r0": ir.terminal("a")} | {
        f"r{i}": ir.sequence(ir.terminal("b"), ir.call(f"r{i - 1}")) for i in range(1, 200)
    }
    if callers_first:
        rules = dict(reversed(rules.items()))
    assert productive.productive_rules(rules) == set(rules)
    assert len(asked) <= 2 * len(rules)
