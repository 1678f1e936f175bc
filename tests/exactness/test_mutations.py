"""The faults that this battery was written against, put back one at a time: its checks find each of them.

`caught` holds if a check passes as the code is and fails with the fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from constrained import CARS, Local, Tries
from constrained.automaton import LexerAutomaton, cache
from constrained.automaton.bitmask import pack_ids, unpack_ids
from constrained.sampling import randomness
from constrained.sampling.attempts import AttemptTally
from constrained.sampling.trie import Trie
from constrained.sampling.trie_walk import TrieWalk
from constrained.spec.noise import GumbelNoise
from tests.exactness import test_battery as battery
from tests.exactness import test_estimates as estimates
from tests.exactness import test_noise_tail as noise_tail
from tests.exactness.battery import ALL, Case

Check = Callable[[], Any]


@pytest.fixture
def fault() -> Iterator[pytest.MonkeyPatch]:
    """Faults of the library; automata that were made without them, or with them, are forgotten."""
    cache._cache.clear()
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    cache._cache.clear()


def case(name: str, limit: int | None = None) -> Case:
    """The last case of a name, with smooth logits."""
    found = [one for one in ALL if one.name == name and one.kind == "smooth"]
    return next(one for one in reversed(found) if limit in (None, one.limit))


def caught(check: Check, put_back: Callable[[], None]) -> bool:
    """Whether a check that passes fails with a fault."""
    check()
    put_back()
    return battery.finds(check)


# Section 1: the end of a completion.


@pytest.mark.parametrize(
    "name",
    ["choice", *(pytest.param(name, marks=pytest.mark.ci) for name in ("schema-object", "lark", "gbnf"))],
)
def test_an_end_that_must_come_and_counts_as_certain(name, fault):
    """At a limit, and where nothing else can follow."""
    one = case(name)

    def put_back() -> None:
        for sampler in (Local, CARS):
            fault.setattr(sampler, "certain_ends", property(lambda self: True))

    assert caught(lambda: battery.check_draws(one, Local(), 8), put_back)
    assert battery.finds(battery.check_distribution, one, CARS(), one.exact.pi, 400)


# Section 2: the noise.


def _one_word(noise: GumbelNoise, position: int, ids: np.ndarray) -> np.ndarray:
    return (noise.philox_words(position, ids).astype(np.float64) + 0.5) * 2.0**-32


def test_noise_of_one_word(fault):
    assert caught(
        lambda: noise_tail.test_production_has_the_numbers_of_the_definition_where_words_are_small(1),
        lambda: fault.setattr(GumbelNoise, "uniforms", _one_word),
    )


@pytest.mark.ci
def test_candidates_by_one_word(fault):
    def candidates(
        scores: Any, noise: GumbelNoise, position: int, count: int, *, ids: Any = None
    ) -> np.ndarray:
        numbers = np.arange(len(scores)) if ids is None else ids
        keys = scores - np.log(-np.log1p(-_one_word(noise, position, numbers)))
        return np.sort(np.argsort(-keys, kind="stable")[:count])

    def put_back() -> None:
        for module in (randomness, noise_tail):
            fault.setattr(module, "gumbel_candidates", candidates)

    assert caught(
        lambda: noise_tail.test_every_way_to_draw_decides_the_same_in_the_tail(8192, 1e-6), put_back
    )


# Section 3: limits, and vocabularies without byte tokens.


def _fewest_bytes(machine: Any, state: int) -> int:
    """Bytes of a shortest text after a state, over a vocabulary with a token for each byte."""
    singles = [token for token, piece in enumerate(machine.vocabulary.tokens) if len(piece) == 1]
    reached, length = {state}, 0
    while not any(machine.accepts(one) for one in reached):
        reached = {after for one in reached for token in singles if (after := machine.next(one, token))}
        length += 1
    return length


def test_a_length_of_a_completion_that_is_not_the_shortest(fault):
    """In bytes, which are tokens by themselves: of the completion that has the fewest."""
    one = case("lark-lexed", 2)
    whole = LexerAutomaton.fill_mask_within

    def put_back() -> None:
        def masks(self: Any, state: int, mask: Any, budget: int) -> None:
            whole(self, state, mask, budget)
            ids = [
                token
                for token in unpack_ids(mask).tolist()
                if token in self.vocabulary.eos_ids
                or _fewest_bytes(self, self.next(state, token)) < budget
            ]  # fmt: skip
            mask[:] = pack_ids(ids, self.vocabulary.size)

        fault.setattr(LexerAutomaton, "fill_mask_within", masks)

    assert caught(lambda: battery.check_distribution(one, CARS(), one.exact.pi, 400), put_back)
    assert battery.finds(battery.check_distribution, one, Local(), one.exact.q, 400)


# Section 4: estimates and kept tries.


def test_evidence_outside_of_its_bounds(fault):
    """The plain mean over attempts, with its own standard error."""

    def mean(self: AttemptTally) -> tuple[float, float]:
        drawn = np.array([math.exp(one.share) * one.valid for one in self.made])
        estimate = max(float(drawn.mean()), 1e-300)
        error = float(drawn.std()) / math.sqrt(len(drawn)) / estimate
        return math.log(estimate), error

    assert caught(
        lambda: estimates.test_evidence_of_cars_is_inside_its_certain_bounds_and_its_error_covers(10),
        lambda: fault.setattr(AttemptTally, "evidence", mean),
    )


@pytest.mark.parametrize(
    "least", [pytest.param(0, marks=pytest.mark.ci), 1], ids=["everywhere", "only after the first token"]
)
def test_a_kept_trie_of_a_model_that_has_changed(least, fault):
    made = TrieWalk.__init__

    def put_back() -> None:
        fault.setattr(Trie, "recognize", lambda self, log_probs: True)
        fault.setattr(
            TrieWalk,
            "__init__",
            lambda self, trie, text, policy, kept=False: made(self, trie, text, policy, False),
        )

    assert caught(
        lambda: estimates.test_kept_tries_notice_that_the_weights_have_changed(CARS, least), put_back
    )


def test_a_kept_trie_that_sees_the_numbers_it_was_learned_from(fault):
    """A second call with a seed makes the attempts of the first one again."""
    kept = Tries.of

    def begin_again(self: Tries, batch: Any) -> Trie:
        trie = kept(self, batch)
        trie.attempts = 0
        return trie

    def check() -> None:
        with pytest.MonkeyPatch.context() as patch:
            estimates.test_a_second_call_of_a_seed_has_other_random_numbers(patch)

    assert caught(check, lambda: fault.setattr(Tries, "of", begin_again))
