"""How often a token of tiny probability is drawn, by exact integration over all random words, and not by draws.

A draw takes the largest log p + G. With E = exp(-G) the token wins whose E / p is least, so its share is an integral
over the values of v that the words can have. The values are counted here, from the text of `constrained.spec.noise`; that the
production code has these values is shown where it matters: at tokens whose first word is 0 or small, which Philox run
backwards finds.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from constrained.sampling.randomness import PhiloxRandomness
from constrained.spec.kernels import noise_keys, row_stats
from constrained.spec.noise import GumbelNoise
from constrained.spec.scores import gumbel_candidates
from tests.exactness.philox import backwards, forwards, places, uniforms_of, words_of

SEED = 0x0123456789ABCDEF
TAIL = 131_071


def below(x: np.ndarray, levels: int = 4) -> np.ndarray:
    """P(v <= x), by counting the values that v has; one level: those of a single word."""
    mass = np.zeros_like(x)
    for k in range(1, levels + 1):
        # The numbers X of k words for which k is the number of words, and (X + 1/2) / 2**(32 k) <= x.
        first = 1 << 22 if k < 4 and levels > 1 else 0
        last = 1 << (32 if k == 1 else 54)
        count = np.clip(np.floor(x * 2.0 ** (32 * k) - 0.5) + 1, first, last) - first
        mass += count * 2.0 ** (-32 * k)
    return mass


def tail_share(tail: int, mass: float, levels: int = 4) -> float:
    """P(one of `tail` equal tokens of this total mass is drawn, and not the one of mass 1 - mass), over `mass`."""
    ratio = mass / tail / (1.0 - mass)
    # The likely token's E, by midpoints: 2**20 of them in [0, 30], each with its probability.
    edges = np.linspace(0.0, 30.0, (1 << 20) + 1)
    share = -np.diff(np.exp(-edges))
    middle = (edges[1:] + edges[:-1]) / 2
    least = below(-np.expm1(-middle * ratio), levels)
    return float((share * -np.expm1(tail * np.log1p(-least))).sum() / mass)


@pytest.mark.parametrize(
    "p", [1e-3, 1e-6, 1e-9, 3e-10, 1e-10, 3e-11, 1e-11, 1e-12, 1e-15, 1e-20, 1e-25, 1e-30]
)
def test_a_rare_token_is_drawn_as_often_as_its_probability_says(p):
    assert abs(tail_share(1, p) - 1) < 1e-6


@pytest.mark.parametrize("mass", [1e-3, 1e-4, 1e-5, 3e-6, 1e-6, 1e-10, 1e-20, 1e-25])
def test_a_flat_tail_is_drawn_as_often_as_its_mass_says(mass):
    assert abs(tail_share(TAIL, mass) - 1) < 1e-6


def test_one_word_alone_would_lose_the_tail():
    """The integral itself can tell: with the noise of one word these are the known errors."""
    assert tail_share(1, 1e-10, 1) == pytest.approx(0.81, abs=0.02)
    assert tail_share(TAIL, 1e-5, 1) == pytest.approx(0.70, abs=0.02)
    assert tail_share(TAIL, 1e-6, 1) < 1e-4


@pytest.mark.parametrize("size", [2, 10, 100, 1000, 4096, 20_000, 131_072])
def test_ties_prefer_no_token_of_a_flat_row(size):
    """Of equal keys the first token wins. Its share: P(all others have v at least its own), by midpoints."""
    v = np.concatenate([np.geomspace(1e-16, 2.0**-10, 1 << 18), np.linspace(2.0**-10, 1, 1 << 18)[1:]])
    middle, width = (v[1:] + v[:-1]) / 2, np.diff(v)
    value = np.where(middle < 2.0**-10, 2.0**-64, 2.0**-32)  # the probability of one value of v there

    def integral(shift: float) -> float:
        return float((width * np.clip(1 - middle + shift * value, 0, 1) ** (size - 1)).sum())

    assert abs(integral(0.5) / integral(0.0) - 1) < 1e-6
    assert abs(integral(-0.5) / integral(0.0) - 1) < 1e-6


def test_philox_backwards_is_philox():
    assert forwards((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert backwards(forwards((1, 2, 3, 4), (5, 6)), (5, 6)) == (1, 2, 3, 4)


@pytest.mark.parametrize("word", [0, 1, 2, 3, 1000, 2**22 - 1, 2**22, 2**22 + 1, 2**31, 2**32 - 1])
def test_production_has_the_numbers_of_the_definition_where_words_are_small(word):
    found = places(word, 1 << 17, SEED, word)
    for _ in range(3):
        token, position, sequence, purpose = next(found)
        ids = np.arange(max(0, token - 5), token + 6)
        noise = GumbelNoise(SEED, sequence, purpose)
        told = uniforms_of(SEED, sequence, purpose, position, ids)
        assert words_of(SEED, sequence, purpose, position, ids)[token - ids[0], 0] == word
        assert np.allclose(noise.uniforms(position, ids), told, rtol=4e-16, atol=0)
        wanted = -np.log(-np.log1p(-told))
        assert np.array_equal(noise.gumbel(position, ids), -np.log(-np.log1p(-noise.uniforms(position, ids))))
        twin = noise.torch_gumbel(position, torch.from_numpy(ids))
        assert np.allclose(twin, wanted, rtol=3e-7, atol=3e-7)
        for level in range(4):
            told_words = words_of(SEED, sequence, purpose, position, ids)[:, level]
            assert np.array_equal(noise.philox_words(position, ids, level), told_words)
            assert np.array_equal(
                noise.torch_philox_words(position, torch.from_numpy(ids), level), told_words.astype(np.int64)
            )


def hard_rows(size: int, mass: float, count: int) -> list[tuple[np.ndarray, GumbelNoise, int, np.ndarray]]:
    """Rows with one likely token and a flat tail, at places where a tail token has the first word 0: the row's scores,
    noise, position, and its keys by definition. In half of the rows a token of the tail has the largest key."""
    scores = np.full(size, np.log(mass / (size - 1)))
    scores[size // 3] = np.log1p(-mass)
    ids, rows, wins = np.arange(size), [], 0
    for token, position, sequence, purpose in places(0, size, SEED):
        few = np.array([token, size // 3])
        v = uniforms_of(SEED, sequence, purpose, position, few)
        won = bool(scores[token] - np.log(-np.log1p(-v[0])) > scores[size // 3] - np.log(-np.log1p(-v[1])))
        if token == size // 3 or (len(rows) - wins if not won else wins) >= count // 2:
            continue
        words = words_of(SEED, sequence, purpose, position, ids)
        v = (words[:, 0].astype(np.float64) + 0.5) * 2.0**-32
        small = np.flatnonzero(words[:, 0] < 1 << 22)
        v[small] = uniforms_of(SEED, sequence, purpose, position, small)
        keys = scores - np.log(-np.log1p(-v))
        assert int(np.argmax(keys)) != size // 3 or not won
        rows.append((scores, GumbelNoise(SEED, sequence, purpose), position, keys))
        wins += won
        if len(rows) == count:
            return rows
    raise AssertionError


@pytest.mark.ci
@pytest.mark.parametrize(("size", "mass"), [(8192, 1e-6), (20_000, 1e-6), (131_072, 1e-5)])
def test_every_way_to_draw_decides_the_same_in_the_tail(size, mass):
    for scores, noise, position, keys in hard_rows(size, mass, 4):
        order = np.argsort(-keys, kind="stable")
        attempt, purpose = divmod(noise.purpose, 8)
        for row in (scores, scores.astype(np.float32)):
            assert set(order[:8]) <= set(gumbel_candidates(row, noise, position, 8).tolist())
        some = np.unique(np.concatenate([order[:8], np.arange(0, size, 7)]))
        sparse = gumbel_candidates(scores[some], noise, position, 8, ids=some)
        assert set(order[:8]) <= set(some[sparse].tolist())
        randomness = PhiloxRandomness(SEED, noise.sequence, attempt)
        assert randomness.pick(scores, np.arange(size), position, purpose) == order[0]
        stats = row_stats(
            torch.from_numpy(scores.astype(np.float32))[None], noise_keys([noise], [position], "cpu"), top_m=8
        )
        assert stats.ids[0].tolist() == order[:8].tolist()
        assert np.allclose(stats.keys[0], keys[order[:8]], rtol=1e-6, atol=2e-6)
