"""The series of exact texts: blocks cost less as the trie learns, and a budget ends a series."""

from __future__ import annotations

from constrained.bench.fidelity.learning import sample_blocks
from constrained.testing import EnumerableModel
from tests.sampling.enumerated import LANGUAGE
from tests.support.finite import FiniteAutomaton


def test_what_a_block_costs_falls_with_a_trie_and_not_without():
    model = EnumerableModel(seed=1)
    automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)
    learned = list(sample_blocks(model, automaton, "", learns=True, blocks=(20,) * 5))
    plain = list(sample_blocks(model, automaton, "", learns=False, blocks=(20,) * 5))
    assert [block.texts for block in learned] == [20] * 5
    assert learned[-1].attempts < 25 < learned[0].attempts
    assert min(block.attempts for block in plain) > 60
    assert sum(b.forwards for b in learned) < sum(b.forwards for b in plain)


def test_a_series_ends_where_its_budget_does():
    model = EnumerableModel(seed=5)
    automaton = FiniteAutomaton({b"abca"}, model.vocabulary)
    (only,) = sample_blocks(model, automaton, "", learns=False, blocks=(5, 5), attempts=3)
    assert not only.complete
    assert only.attempts == 15
    assert only.forwards_per_text > 1
