"""Candidates of a draw include every token that can win; sums and random words are those of the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.spec.noise import GumbelNoise
from constrained.spec.scores import gumbel_candidates, log_sum_exp, top_indices

sizes = st.integers(1, 3000)
seeds = st.integers(0, 2**32 - 1)


def row(seed: int, size: int, dtype: type) -> np.ndarray:
    """Scores of any spread, with ties and impossible tokens."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=size) * random.choice([0.0, 0.3, 3.0, 30.0, 1e5])
    if random.random() < 0.5:
        scores = np.round(scores)
    scores[random.random(size) < random.choice([0.0, 0.5])] = -np.inf
    return scores.astype(dtype)


@given(seeds, sizes, st.integers(1, 40), st.sampled_from([1.0, 0.7, 3.0]), st.booleans())
def test_no_token_that_can_win_is_left_out(seed, size, count, temperature, some) -> None:
    for dtype in (np.float32, np.float64):
        scores = row(seed, size, dtype)
        ids = (
            np.sort(np.random.default_rng(seed).choice(200_000, size, replace=False))
            if some
            else np.arange(size)
        )
        noise = GumbelNoise(seed, 3, 1)
        # The keys as a draw makes them: every one, by division.
        keys = scores.astype(np.float64) / temperature + noise.gumbel(9, ids)
        wanted = [i for i in np.argsort(-keys, kind="stable")[:count] if keys[i] > -np.inf]
        found = gumbel_candidates(scores, noise, 9, count, ids=ids if some else None, scale=1 / temperature)
        assert set(wanted) <= set(found.tolist())
        assert found.tolist() == sorted(set(found.tolist()))
        assert (scores[found] > -np.inf).all()


def test_few_candidates_are_left_of_many_tokens() -> None:
    scores = (10 * np.random.default_rng(0).normal(size=100_000)).astype(np.float32)
    found = gumbel_candidates(scores, GumbelNoise(0), 0, 16)
    assert len(found) <= 20


@given(seeds, sizes, st.integers(1, 40))
def test_the_largest_come_in_order(seed, size, count) -> None:
    scores = row(seed, size, np.float32)
    assert top_indices(scores, count).tolist() == np.argsort(-scores, kind="stable")[:count].tolist()


@given(seeds, sizes, st.sampled_from([1.0, 0.5, 2.0]))
def test_a_sum_is_that_of_its_definition(seed, size, scale) -> None:
    for dtype in (np.float32, np.float64):
        scores = row(seed, size, dtype)
        wide = [float(score) * scale for score in scores]
        top = max(wide)
        wanted = (
            top + math.log(math.fsum(math.exp(one - top) for one in wide)) if top > -math.inf else -math.inf
        )
        assert log_sum_exp(scores, scale) == pytest.approx(wanted, rel=1e-14, abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_no_distribution_shows(dtype) -> None:
    assert log_sum_exp(np.zeros(0, dtype)) == -np.inf
    assert log_sum_exp(np.full(40, -np.inf, dtype)) == -np.inf
    for at in (0, 17, 39):
        scores = np.zeros(40, dtype)
        scores[at] = np.inf
        assert log_sum_exp(scores) == np.inf
        scores[at] = np.nan
        assert math.isnan(log_sum_exp(scores))


@given(seeds, st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=60))
def test_native_words_are_those_of_the_definition(seed, position, ids) -> None:
    noise, tokens = GumbelNoise(seed, 7, 2), np.array(ids, dtype=np.int64)
    words = [int(noise._blocks(position, int(token) >> 2)[int(token) & 3]) for token in ids]
    assert noise.philox_words(position, tokens).tolist() == words
