"""Philox4x32-10 forwards and backwards, and the numbers of `constrained.spec.noise` from its text: shares no code with `spec`.

Backwards, because Philox is a bijection of its counters: so a token whose word is 0, which a draw meets once in 2**32
times, can be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
LOW = 0xFFFFFFFF


def forwards(counter, key):
    """Four words; ints, or uint64 arrays of words below 2**32."""
    a, b, c, d = counter
    for i in range(10):
        k0, k1 = (key[0] + i * W0) & LOW, (key[1] + i * W1) & LOW
        left, right = M0 * a, M1 * c
        a, b, c, d = (right >> 32) ^ b ^ k0, right & LOW, (left >> 32) ^ d ^ k1, left & LOW
    return a, b, c, d


def backwards(words, key):
    """The counter with these four words; ints, or uint64 arrays."""
    a, b, c, d = words
    inverse = pow(M0, -1, 1 << 32), pow(M1, -1, 1 << 32)
    for i in reversed(range(10)):
        k0, k1 = (key[0] + i * W0) & LOW, (key[1] + i * W1) & LOW
        first, third = (d * inverse[0]) & LOW, (b * inverse[1]) & LOW
        a, b, c, d = first, ((M1 * third) >> 32) ^ a ^ k0, third, ((M0 * first) >> 32) ^ c ^ k1
    return a, b, c, d


def words_of(seed: int, sequence: int, purpose: int, position: int, ids: np.ndarray) -> np.ndarray:
    """The four words of tokens, uint64 [n, 4]."""
    tokens = ids.astype(np.uint64)
    found = np.empty((len(tokens), 4), dtype=np.uint64)
    key = (seed & LOW, seed >> 32)
    for i in range(4):
        block = (tokens >> np.uint64(2)) + np.uint64(i << 30)
        counter = (block, *(np.full_like(block, x) for x in (position, sequence, purpose)))
        four = np.stack(forwards(counter, key), axis=1)
        found[:, i] = four[np.arange(len(tokens)), (tokens & np.uint64(3)).astype(np.intp)]
    return found


def uniform_of(words: tuple[int, ...]) -> float:
    """The number v of a token with these four words."""
    number = 0
    for k in range(1, 5):
        number = (number << 32) + int(words[k - 1])
        if number >= 1 << 22 or k == 4:
            return max((2 * number + 1) / (1 << 32 * k + 1), 2.0**-126)
    raise AssertionError


def uniforms_of(seed: int, sequence: int, purpose: int, position: int, ids: np.ndarray) -> np.ndarray:
    """v of tokens, float64 [n]."""
    return np.array([uniform_of(words) for words in words_of(seed, sequence, purpose, position, ids)])


def places(word: int, size: int, seed: int, start: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Without end (token below `size`, position, sequence, purpose) whose first word is this one, for a seed."""
    random = np.random.default_rng(start)
    while True:
        four = random.integers(0, 1 << 32, (4, 1 << 16), dtype=np.uint64)
        lane = int(random.integers(4))
        four[lane] = word
        counters = np.stack(backwards(tuple(four), (seed & LOW, seed >> 32)))
        tokens = 4 * counters[0] + np.uint64(lane)
        for i in np.flatnonzero(tokens < size):
            yield int(tokens[i]), *(int(x) for x in counters[1:, i])
