"""Sources of random choices: samplers draw through this interface only, so that tests can enumerate all outcomes.

`Randomness.pick` takes one of several outcomes, `Randomness.order` visits them without replacement; both by the rule of
the largest Gumbel key, log p + G, with noise that is keyed by position (`constrained.spec.noise`) and not by time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from constrained.spec.noise import GumbelNoise
from constrained.spec.scores import gumbel_candidates

Ids = NDArray[np.intp]
Scores = NDArray[np.float64]

TOKENS, COINS, RESAMPLING, CUTS, MOVES, CHOICES = range(6)
"""Purposes of draws: token; acceptance of an attempt; resampling; MCMC cut; MCMC move; one sequence of a set."""

_PURPOSES = 8  # per attempt: the attempt number takes the bits above
_FIRST = 32  # outcomes sorted first; most visits end among them
_MANY = 256  # from here on, selecting the outcomes whose noise can matter is faster


class Randomness(ABC):
    """The randomness of one sequence (of one attempt at it, of one particle).

    Attributes:
        noise: the Gumbel noise that tokens are drawn with; None without such noise.
    """

    noise: GumbelNoise | None = None

    @abstractmethod
    def pick(self, scores: Scores, ids: Ids, position_id: int, purpose: int = TOKENS) -> int:
        """Takes one of several outcomes.

        Args:
            scores: log-weights, float64 [n], not all -inf; they need not be normalised.
            ids: numbers of the outcomes, [n]: the noise of an outcome depends on its number, not on its index.
            position_id: absolute position, or another number that is unique for this purpose.
            purpose: one of the constants above.

        Returns:
            An index i < n, with probability exp(scores[i]) / sum of exp(scores).
        """

    @abstractmethod
    def order(self, scores: Scores, ids: Ids, position_id: int) -> Iterator[int]:
        """Visits outcomes without replacement: each is the one that `pick` draws from those that are left.

        Outcomes of score -inf are never visited. The first one is the one that `pick` takes.
        """

    def order_top_k(self, scores: Scores, position_id: int, count: int) -> Ids:
        """The first of the outcomes 0 .. n - 1 that `order` would visit, in its order; `count` of them, or fewer.

        Args:
            scores: log-weights, float64 [n].
            position_id: absolute position.
            count: how many.
        """
        return np.fromiter(
            islice(self.order(scores, np.arange(len(scores)), position_id), count), dtype=np.intp
        )

    @abstractmethod
    def uniform(self, count: int, position_id: int, purpose: int) -> Scores:
        """Numbers between 0 and 1, float64 [count]."""


class PhiloxRandomness(Randomness):
    """Position-keyed noise.

    Attributes:
        seed, sequence: as in `constrained.spec.noise.GumbelNoise`.
        attempt: which of the attempts or particles of this sequence; 0 .. 2**29 - 1.
    """

    def __init__(self, seed: int, sequence: int = 0, attempt: int = 0) -> None:
        self.seed = seed
        self.sequence = sequence
        self.attempt = attempt
        self.noise = self._noise(TOKENS)

    def _noise(self, purpose: int) -> GumbelNoise:
        return GumbelNoise(self.seed, self.sequence, self.attempt * _PURPOSES + purpose)

    def pick(self, scores: Scores, ids: Ids, position_id: int, purpose: int = TOKENS) -> int:
        """The outcome of the largest key; of several, the first."""
        if len(ids) == 1:
            return 0
        noise = self._noise(purpose)
        if len(ids) < _MANY:
            return int(np.argmax(scores + noise.gumbel(position_id, ids)))
        able, keys = _leading(scores, ids, noise, position_id, 1)
        return int(able[np.argmax(keys)])

    def order(self, scores: Scores, ids: Ids, position_id: int) -> Iterator[int]:
        """By decreasing keys, sorted lazily."""
        noise = self._noise(TOKENS)
        left = np.flatnonzero(scores > -np.inf)
        if len(left) >= _MANY:
            able, keys = _leading(scores, ids, noise, position_id, _FIRST)
            first = able[_largest(keys, _FIRST)]
            yield from first.tolist()
            left = np.setdiff1d(left, first, assume_unique=True)
        keys, wanted = scores[left] + noise.gumbel(position_id, ids[left]), _FIRST
        while len(left):
            chosen = _largest(keys, wanted)
            yield from left[chosen].tolist()
            left, keys = np.delete(left, chosen), np.delete(keys, chosen)
            wanted *= 4

    def order_top_k(self, scores: Scores, position_id: int, count: int) -> Ids:
        """See `Randomness.order_top_k`; sorts only these."""
        noise = self._noise(TOKENS)
        able = gumbel_candidates(scores, noise, position_id, count)
        return able[_largest(scores[able] + noise.gumbel(position_id, able), count)]

    def uniform(self, count: int, position_id: int, purpose: int) -> Scores:
        """Uniform numbers of 52 bits from two Philox words, never 0 or 1."""
        noise, numbers = self._noise(purpose), np.arange(count)
        high, low = (noise.philox_words(position_id, numbers, i).astype(np.float64) for i in range(2))
        return np.asarray((high + (np.floor(low / 2.0**12) + 0.5) * 2.0**-20) * 2.0**-32)


def _leading(
    scores: Scores, ids: Ids, noise: GumbelNoise, position_id: int, count: int
) -> tuple[NDArray[np.intp], Scores]:
    """The outcomes that can be among the `count` largest keys, ascending, and their keys."""
    able = gumbel_candidates(scores, noise, position_id, count, ids=ids)
    return able, scores[able] + noise.gumbel(position_id, ids[able])


def _largest(keys: Scores, count: int) -> NDArray[np.intp]:
    """Indices of the largest keys in decreasing order; of equal ones the first comes first."""
    if count < len(keys):
        least = np.partition(keys, -count)[-count]
        among = np.flatnonzero(keys >= least)
    else:
        among = np.arange(len(keys))
    return among[np.argsort(-keys[among], kind="stable")][:count]


def bernoulli(randomness: Randomness, probability: float, position_id: int, purpose: int = COINS) -> bool:
    """True with this probability; nothing is drawn where it is 0 or 1."""
    if not 0.0 < probability < 1.0:
        return probability >= 1.0
    scores = np.log(np.array([1.0 - probability, probability]))
    return randomness.pick(scores, np.arange(2), position_id, purpose) == 1
