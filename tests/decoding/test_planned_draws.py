"""What a pass asks the device for ahead: the logits of what is allowed, where that is little and known already."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import constrained
from constrained.automaton import TokenAutomaton
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.planned_draws import plan_draws
from constrained.decoding.sequence import DecodingParams
from constrained.decoding.tree_logits import TreeLogits
from constrained.models.logits import PlannedDraws
from constrained.sampling import LogitsWarper
from constrained.spec.noise import GumbelNoise
from constrained.vocabulary import Vocabulary
from tests.server.serving import BYTES
from tests.spec.test_mask_free import on_device
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

ROW = TreeLogits(None, 0, 0, 1)


def sequence_at_the_start(pattern: str, limit: int = 100, vocabulary: Vocabulary = BYTES) -> Any:
    automaton = constrained.compile(constrained.regex(pattern), vocabulary)
    return SimpleNamespace(
        params=DecodingParams(automaton, LogitsWarper(1.0), certain_ends=True, canonical=True),
        randomness=SimpleNamespace(noise=GumbelNoise(1)),
        candidates=AutomatonCandidates(automaton, automaton.start, limit),
        state=automaton.start,
        remaining_tokens=limit,
        next_position_id=3,
    )


def planned(sequence: Any) -> list[int] | None:
    draws = plan_draws([sequence], [ROW], [16])
    assert draws is not None
    return list(draws.allowed[0]) if 0 in draws.allowed else None


def test_no_mask_is_computed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sequences wait for the pass, and a mask may be slow: near the token limit of a hostile schema, for example."""
    sequence = sequence_at_the_start("[xyz]{5}")
    automaton = sequence.params.automaton
    with monkeypatch.context() as patch:
        for name in ("fill_mask", "fill_mask_within"):
            patch.setattr(TokenAutomaton, name, lambda *_: pytest.fail("a mask was computed"))
        assert planned(sequence) is None
    automaton.fill_mask(automaton.start, automaton.new_mask())
    assert planned(sequence) == [ord(letter) for letter in "xyz"]


def test_near_the_limit_what_is_allowed_without_it_is_asked_for() -> None:
    sequence = sequence_at_the_start("x{3}|y{9}", limit=4)
    automaton = sequence.params.automaton
    automaton.fill_mask(automaton.start, automaton.new_mask())
    assert planned(sequence) == [ord("x"), ord("y")]
    assert sequence.candidates.ids.tolist() == [ord("x")]


def test_the_token_of_forced_text_is_asked_for_before_its_mask_is_known() -> None:
    vocabulary = small_bpe_vocabulary()
    assert (
        planned(sequence_at_the_start('"name": [0-9]', vocabulary=vocabulary))
        == vocabulary.encode('"name": ')[:1]
    )


def test_states_of_a_tree_that_are_those_of_the_grammar_without_limits_are_left_out() -> None:
    """A drafter follows the relaxed automaton, whose states the limited one does not know."""
    grammar = constrained.lark('start: a "z"\na[max_tokens=3]: /[a-y]+/\n')
    automaton = constrained.compile(grammar, small_bpe_vocabulary())
    assert automaton.relaxed_automaton is not automaton
    sequence = sequence_at_the_start("x")
    sequence.params = replace(sequence.params, automaton=automaton)
    sequence.state, sequence.candidates = automaton.start, AutomatonCandidates(automaton, automaton.start, 9)
    tree: Any = SimpleNamespace(depth=[0, 1], state=[automaton.start, 10**6])
    draws = plan_draws([sequence], [TreeLogits(tree, 0, 1, 1)], [16])
    assert draws is not None
    assert set(draws.allowed) <= {0}


def test_much_that_is_allowed_is_not_asked_for() -> None:
    sequence = sequence_at_the_start("[^a]{5}")
    sequence.params.automaton.fill_mask(sequence.state, sequence.params.automaton.new_mask())
    assert planned(sequence) is None


@pytest.mark.parametrize(("asked", "copies"), [([7], 0), ([3, 9], 0), ([3, 7, 9], 0), ([3, 8], 1), ([10], 1)])
def test_logits_of_a_part_of_what_was_asked_for_are_there(
    asked: list[int], copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = np.random.default_rng(0).normal(size=400).astype(np.float32)
    draws = PlannedDraws([0], [GumbelNoise(1)], [3], [1.0], 16, {0: np.array([3, 7, 9])})
    logits = on_device([row], draws)
    logits.top_keys(0)
    fetched: list[int] = []
    original = type(logits)._on_host
    monkeypatch.setattr(type(logits), "_on_host", lambda self, one: fetched.append(1) or original(self, one))
    assert logits.some(0, np.array(asked)).tolist() == row[asked].tolist()
    assert len(fetched) == copies
