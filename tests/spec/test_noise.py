"""Noise is a function of (seed, sequence, position, token id) and nothing else; its distribution is Gumbel's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from constrained.spec.noise import GumbelNoise, gumbel, philox4x32, torch_gumbel

# Published with the Random123 library for philox4x32 with 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]

seeds = st.integers(0, 2**64 - 1)
words32 = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, output):
    assert philox4x32(counter, key) == output
    arrays = tuple(np.array([c], dtype=np.uint64) for c in counter)
    assert tuple(int(word[0]) for word in philox4x32(arrays, key)) == output


@given(seeds, words32, words32, words32, st.lists(st.integers(0, 200_000), max_size=40))
def test_every_word_comes_from_the_documented_key_and_counter(seed, sequence, position, purpose, ids):
    words = GumbelNoise(seed, sequence, purpose).philox_words(position, np.array(ids, dtype=np.int64))
    for token, word in zip(ids, words, strict=True):
        counter = (token >> 2, position, sequence, purpose)
        assert word == philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))[token & 3]


@given(seeds, st.integers(0, 2**32 - 1), st.lists(st.integers(0, 5000), min_size=1, max_size=200))
def test_a_tokens_noise_does_not_depend_on_other_tokens(seed, position, ids):
    noise = GumbelNoise(seed)
    row = noise.gumbel(position, np.arange(5001))
    assert np.array_equal(noise.gumbel(position, np.array(ids)), row[ids])


@given(seeds, words32, words32)
def test_the_torch_twin_has_the_same_integers(seed, sequence, position):
    noise, ids = GumbelNoise(seed, sequence), np.arange(777)
    twin = noise.torch_philox_words(position, torch.arange(777))
    assert np.array_equal(twin.numpy(), noise.philox_words(position, ids).astype(np.int64))
    close = np.abs(noise.torch_gumbel(position, torch.arange(777)).numpy() - noise.gumbel(position, ids))
    assert close.max() < 2e-6


def test_both_ends_of_the_words_give_finite_noise():
    ends = np.array([0, 1, 2**22 - 1, 2**22, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
    v = (ends + 0.5) * 2.0**-32
    v[:3] = [2.0**-126, (1 + 0.5 * 2.0**-32) * 2.0**-32, (2**22 - 1 + 0.5 * 2.0**-32) * 2.0**-32]
    assert gumbel(v)[0] == pytest.approx(126 * np.log(2), abs=1e-9)
    assert gumbel(v)[-1] == pytest.approx(-np.log(33 * np.log(2)), abs=1e-9)
    twin = torch_gumbel(
        torch.from_numpy(ends), lambda some, level: torch.zeros(len(some[0]), dtype=torch.int64)
    )
    assert np.allclose(twin.numpy(), gumbel(v), rtol=1e-6, atol=1e-7)


def test_the_noise_is_gumbel_distributed():
    drawn = np.sort(GumbelNoise(3).gumbel(0, np.arange(200_000)))
    distribution = np.exp(-np.exp(-drawn))
    steps = np.arange(1, len(drawn) + 1) / len(drawn)
    assert np.abs(distribution - steps).max() < 1.95 / np.sqrt(len(drawn))  # Kolmogorov-Smirnov at 0.1 %
    assert drawn.mean() == pytest.approx(0.57721566, abs=5 * np.pi / np.sqrt(6 * len(drawn)))


@pytest.mark.parametrize("axis", ["seed", "sequence", "position", "purpose"])
def test_neighbouring_keys_are_uncorrelated(axis):
    def row(step: int) -> np.ndarray:
        keys = {"seed": 7, "sequence": 7, "position": 7, "purpose": 7}
        keys[axis] += step
        position = keys.pop("position")
        return GumbelNoise(**keys).gumbel(position, np.arange(50_000))

    correlation = np.corrcoef(row(0), row(1))[0, 1]
    assert abs(correlation) < 4.5 / np.sqrt(50_000)


@pytest.mark.parametrize("keys", [{"seed": -1}, {"seed": 2**64}, {"seed": 0, "sequence": 2**32}])
def test_keys_out_of_range_are_refused(keys):
    with pytest.raises(ValueError, match="out of range"):
        GumbelNoise(**keys)
    with pytest.raises(ValueError, match="position -1 is out of range"):
        GumbelNoise(0).philox_words(-1, np.arange(3))
