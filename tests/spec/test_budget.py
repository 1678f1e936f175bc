"""How many nodes pay, and when speculation stops: the rule on simulated machines with known times."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from constrained.spec.budget import DraftBudget, PassCosts

Cost = Callable[[int], float]
"""From the tokens that a pass reads of each text to seconds."""


@dataclass
class Machine:
    """Passes over some texts, on a clock that counts what they cost and nothing else.

    Attributes:
        cost: of a pass.
        pis: acceptance probabilities by the sources' estimate, best first.
        truth: how many of the first draft tokens are accepted, by the number of the pass.
        draft_seconds: of a node.
    """

    cost: Cost
    pis: Sequence[float]
    truth: Callable[[int], int]
    texts: int = 1
    draft_seconds: float = 0.0001
    budget: DraftBudget = field(default_factory=lambda: DraftBudget(64))
    seconds: float = 0.0
    tokens: int = 0
    passes: int = 0
    read: list[int] = field(default_factory=list)

    def run(self, passes: int) -> float:
        """So many passes; tokens of a text per second of them."""
        seconds, tokens = self.seconds, self.tokens
        for _ in range(passes):
            self._pass()
        return (self.tokens - tokens) / (self.seconds - seconds)

    def _pass(self) -> None:
        wanted = self.budget.draft_size()
        drafting, nodes = 0.0, 0
        if wanted:
            drafting = self.draft_seconds * wanted * self.texts
            nodes = max(self.budget.verify_sizes([self.pis[:wanted]] * self.texts, drafting))
        took = self.cost(1 + nodes)
        self.budget.record_pass(self.texts, nodes, took, drafting)
        came = min(nodes, self.truth(self.passes))
        self.budget.record_accepted(self.texts, came * self.texts)
        self.seconds += drafting + took
        self.tokens += 1 + came
        self.passes += 1
        self.read.append(nodes)


SURE = [0.95**i for i in range(1, 65)]


def flat(width: int) -> float:
    return 0.01


def steep(width: int) -> float:
    """Every token costs as much as a pass."""
    return 0.01 * width


def slanted(width: int) -> float:
    return 0.01 + 0.0006 * (width - 1)


@pytest.mark.parametrize("texts", [1, 4, 16])
@pytest.mark.parametrize(
    "cost", [steep, slanted, flat, lambda n: 0.01 * n**0.5], ids=["steep", "slanted", "flat", "root"]
)
def test_where_nothing_comes_true_3_percent_are_lost_and_a_few_passes(cost: Cost, texts: int) -> None:
    """Whatever sources say of themselves, and whatever reading costs."""
    machine = Machine(cost, SURE, lambda number: 0, texts)
    machine.run(2000)
    plain = machine.tokens * cost(1)
    assert machine.seconds <= 1.031 * plain + 3 * cost(1)


def test_where_reading_is_free_everything_is_read() -> None:
    machine = Machine(flat, SURE, lambda number: 20)
    machine.run(40)
    assert machine.read[-5:] == [64] * 5
    assert machine.read[0] == 0  # what a plain pass takes is measured first


def test_where_reading_is_dear_little_is_read() -> None:
    machine = Machine(slanted, SURE, lambda number: 5)
    machine.run(200)
    best = max(range(65), key=lambda n: (1 + sum(SURE[:n])) / (0.0001 + slanted(1 + n)))
    usual = sorted(machine.read[-50:])[25]
    assert best / 2 <= usual <= 2 * best


def test_draft_tokens_that_pay_are_read_from_the_start() -> None:
    machine = Machine(slanted, SURE, lambda number: 8)
    plain = 1 / slanted(1)
    assert machine.run(30) > 1.5 * plain
    assert machine.run(200) > 2.5 * plain


def test_what_the_first_pass_of_a_width_makes_ready_is_not_held_against_the_others() -> None:
    """Kernels are compiled and graphs are captured at the first use of a width, which takes as long as a hundred passes."""
    ready: set[int] = set()

    def first_slow(width: int) -> float:
        known, _ = width in ready, ready.add(width)
        return slanted(width) if known else 1.0

    machine = Machine(first_slow, SURE, lambda number: 8)
    machine.run(100)
    assert machine.run(200) > 2.5 / slanted(1)


def test_it_recovers_when_draft_tokens_start_to_pay() -> None:
    """For a thousand passes nothing comes true, then much: within two hundred passes it is nearly as fast as ever."""
    machine = Machine(slanted, SURE, lambda number: 8 if number >= 1000 else 0)
    machine.run(1000)
    assert sum(1 for nodes in machine.read[-200:] if nodes) <= 30
    machine.run(200)
    ever = Machine(slanted, SURE, lambda number: 8)
    ever.run(200)
    assert machine.run(200) > 0.9 * ever.run(200)


def test_it_ends_when_draft_tokens_cease_to_pay() -> None:
    machine = Machine(slanted, SURE, lambda number: 8 if number < 500 else 0)
    machine.run(500)
    before = machine.seconds
    machine.run(1000)
    assert machine.seconds - before <= 1000 * slanted(1) * 1.031 + 6 * slanted(1)


def test_a_streak_of_failures_is_no_reason_to_pause_what_pays() -> None:
    """After forty passes that paid, four that do not."""
    machine = Machine(slanted, SURE, lambda number: 8 if number % 44 < 40 else 0)
    machine.run(600)
    assert sum(1 for nodes in machine.read[40:] if not nodes) < 60


def test_drafts_that_no_one_reads_are_paid_for() -> None:
    """The sources themselves say that nothing will come true, and take half a pass to say so."""
    machine = Machine(steep, [0.01] * 64, lambda number: 0, draft_seconds=0.00125)
    machine.run(1000)
    assert machine.seconds <= 1000 * steep(1) * 1.031 + 3 * steep(1)


def test_a_machine_that_is_interrupted_now_and_then_is_not_misjudged() -> None:
    """One pass in ten takes five times as long, whatever it reads."""
    rng = random.Random(1)

    def disturbed(width: int) -> float:
        return slanted(width) * (5 if rng.random() < 0.1 else 1)

    paying = Machine(disturbed, SURE, lambda number: 8)
    paying.run(500)
    rng.seed(1)
    plain = Machine(disturbed, SURE, lambda number: 8, budget=DraftBudget(0))
    assert paying.run(1000) > 3 * plain.run(1000)
    failing = Machine(disturbed, SURE, lambda number: 0)
    assert failing.run(3000) > 0.95 * plain.run(3000)


def test_the_likeliest_are_read_and_rows_are_filled() -> None:
    """A pass is as wide as its longest row: what another row reads beside it costs nothing more."""
    budget = DraftBudget(64)
    for width in (1, 1, 1, 2, 8, 32, 64):
        budget.costs.record(width, 0.01 + 0.0005 * width)
    sure, unsure = [0.95**i for i in range(1, 65)], [0.3**i for i in range(1, 4)]
    counts = budget.verify_sizes([sure, unsure])
    assert counts[0] > counts[1] == 3


def test_prompts_say_nothing_about_passes() -> None:
    budget = DraftBudget(64)
    budget.record_pass(1, 0, 100.0, comparable=False)
    assert budget.costs.max_width == 0
    assert budget.draft_size() == 0


def test_a_fixed_budget_does_not_look_at_times() -> None:
    budget = DraftBudget(16, adapts=False)
    for _ in range(10):
        assert budget.draft_size() == 16
        assert budget.verify_sizes([SURE[:16], SURE[:3]], 1.0) == [16, 3]
        budget.record_pass(2, 16, 1000.0, 1.0)


def test_no_nodes_means_no_drafts() -> None:
    machine = Machine(flat, SURE, lambda number: 5, budget=DraftBudget(0))
    machine.run(100)
    assert set(machine.read) == {0}


@pytest.mark.parametrize("width", [1, 2, 7, 33, 64, 200])
def test_costs_lie_between_what_was_measured(width: int) -> None:
    costs = PassCosts()
    costs.record(1, 0.010)
    costs.record(64, 0.073)
    assert costs.predict_seconds(width) == pytest.approx(0.010 + 0.001 * (width - 1))


def test_a_wider_pass_is_never_thought_faster() -> None:
    costs = PassCosts()
    for width, seconds in ((1, 0.01), (8, 0.5), (32, 0.02)):
        costs.record(width, seconds)
    assert costs.predict_seconds(8) == 0.02
    known = [costs.predict_seconds(width) for width in range(1, 40)]
    assert known == sorted(known)


def test_what_is_written_without_a_pass_saves_none() -> None:
    """Draft tokens before forced text are worth a pass only with all of it, behind which the next draw is."""
    budget = DraftBudget(64)
    for width in (1, 1, 1, 2, 8, 32, 64):
        budget.costs.record(width, 0.01 + 0.0005 * width)
    forced = [[True] * 7 + [False]]
    assert budget.verify_sizes([[0.9] * 8]) == [8]
    assert budget.verify_sizes([[0.9] * 8], jumps=forced) == [8]
    assert budget.verify_sizes([[0.9] * 7]) == [7]
    assert budget.verify_sizes([[0.9] * 7], jumps=[[True] * 7]) == [0]
