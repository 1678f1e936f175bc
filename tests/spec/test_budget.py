"""How many nodes pay: the rule against its definition, on made-up machines whose time is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spec.budget import Budget


def passes(
    budget: Budget, cost: Callable[[int], float], texts: int, pis: list[float], count: int
) -> list[int]:
    """Nodes of each of some passes on a machine on which a pass of n tokens takes cost(n)."""
    used = []
    for _ in range(count):
        total = 0
        if budget.drafts(texts):
            budget.drafted(texts, 0.0001 * texts)
            total = sum(budget.nodes([pis] * texts))
        budget.measured(texts + total, cost(texts + total))
        used.append(total)
    return used


FALLING = [0.9**i for i in range(1, 65)]


def test_where_reading_is_free_everything_is_read() -> None:
    used = passes(Budget(64), lambda n: 0.01, 1, FALLING, 30)
    assert used[-10:] == [64] * 10


def test_where_reading_is_dear_nothing_is_guessed() -> None:
    """Every token costs as much as a pass: no guess below certainty pays, and drafting stops nearly altogether."""
    budget = Budget(64)
    used = passes(budget, lambda n: 0.01 * n, 1, [0.5**i for i in range(1, 65)], 400)
    assert sum(used[5:]) == 0
    drafted = sum(1 for _ in range(200) if budget.drafts(1) and budget.nodes([[0.5, 0.25]]) is not None)
    assert drafted <= 200 / 30


def test_in_between_the_best_number_is_taken() -> None:
    def cost(n: int) -> float:
        return 0.01 + 0.0006 * n

    budget = Budget(64)
    used = passes(budget, cost, 1, FALLING, 60)
    speed = [(1 + sum(FALLING[:n])) / (0.0001 + cost(1 + n)) for n in range(65)]
    assert speed[used[-1]] >= 0.97 * max(speed)
    assert 0 < used[-1] < 64


def test_a_batch_shares_what_pays_and_the_likeliest_come_first() -> None:
    budget = Budget(64)
    sure, unsure = [0.95**i for i in range(1, 65)], [0.3**i for i in range(1, 65)]
    for n in (2, 130, 40, 10, 2, 66):
        budget.measured(n, 0.01 + 0.0005 * n)
    counts = budget.nodes([sure, unsure])
    assert counts[0] > counts[1]


@pytest.mark.parametrize("texts", [1, 8, 10, 37])
def test_batches_of_every_size_are_drafted_for(texts) -> None:
    used = passes(Budget(16), lambda n: 0.01, texts, FALLING[:16], 20)
    assert used[-5:] == [16 * texts] * 5


def test_what_a_plain_pass_takes_is_measured_again_and_again() -> None:
    """The machine was slow just when it was measured first: drafting must not go on paying in theory alone."""
    budget = Budget(64)
    budget.measured(65, 0.065)
    budget.measured(1, 0.08)
    used = passes(budget, lambda n: 0.001 * n, 1, [0.4**i for i in range(1, 65)], 4000)
    assert sum(used[-1000:]) <= 3000


def test_a_fixed_budget_does_not_look_at_times() -> None:
    used = passes(Budget(16, adapts=False), lambda n: 10.0 * n, 2, FALLING[:16], 10)
    assert used == [32] * 10


def test_no_nodes_means_no_drafts() -> None:
    assert not Budget(0).drafts(1)


@pytest.mark.parametrize("width", [1, 2, 7, 33, 64, 200])
def test_costs_lie_between_what_was_measured(width) -> None:
    budget = Budget(64)
    budget.measured(1, 0.010)
    budget.measured(64, 0.073)
    assert budget.cost(width) == pytest.approx(0.010 + 0.001 * (width - 1))
