"""Predicted acceptance is corrected by what was accepted, and keeps the order of nodes."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.bench.replay.measure import ReplayCounts, replay, required_draws
from constrained.spec.acceptance import BUCKETS, INITIAL_FACTORS, AcceptanceTable
from constrained.spec.drafts import DrafterFactory
from constrained.spec.memory import DraftMemory
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["red", "blue"]}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}


@given(st.lists(st.floats(0.0, 1.0), max_size=80), st.sampled_from(list(INITIAL_FACTORS.values())))
def test_predictions_are_probabilities_and_keep_the_order_of_nodes(found, factors) -> None:
    falling = sorted(found, reverse=True)
    corrected = AcceptanceTable(factors).corrected(falling)
    assert len(corrected) == len(falling)
    assert corrected == sorted(corrected, reverse=True)
    assert all(0.0 <= chance <= 1.0 for chance in corrected)


@pytest.mark.parametrize("truth", [0.4, 1.0, 1.6])
def test_a_table_learns_how_many_are_accepted(truth: float) -> None:
    rng = random.Random(0)
    table = AcceptanceTable((1.0,) * BUCKETS)
    predicted = accepted = 0.0
    for step in range(1500):
        chances = sorted((0.6 * rng.random() for _ in range(8)), reverse=True)
        table.verified(chances)
        hits = [chance for chance in chances if rng.random() < truth * chance]
        for chance in hits:
            table.accepted(chance)
        if step >= 500:
            predicted += sum(table.corrected(chances))
            accepted += len(hits)
    assert predicted == pytest.approx(accepted, rel=0.1)


@pytest.mark.parametrize("known", [False, True], ids=["new constraints", "repeated"])
@pytest.mark.parametrize("document", [False, True], ids=["alone", "with a document"])
def test_as_many_tokens_are_accepted_as_predicted(known: bool, document: bool) -> None:
    """The ratchet of `bench replay`, on values made for it."""
    vocabulary = small_bpe_vocabulary()
    automaton = constrained.compile(SCHEMA, vocabulary)
    memory, rng, total = DraftMemory(), random.Random(1), ReplayCounts()
    for number in range(40):
        names = [
            rng.choice(["Ann", "Bob", "Mia"]) + " " + rng.choice(["Lee", "Kim", "Roy"]) for _ in range(2)
        ]
        values = [{"name": name, "tags": rng.choices(["red", "blue"], k=rng.randint(0, 3))} for name in names]
        factory = DrafterFactory(automaton, memory, f"constraint {number}")
        for value in values if known else values[1:]:
            draws = required_draws(automaton, vocabulary.encode(json.dumps(value)))
            assert draws is not None
            prompt = vocabulary.encode(f"It was {value['name']} who came.") if document else []
            done = replay(draws, factory.lazy_drafter(prompt), 16)
            if number >= 10 and value is values[1]:
                total.add(done)
    assert total.promised == pytest.approx(total.accepted, rel=0.1)
