"""How many draft tokens will be accepted: path probabilities of draft trees, corrected by how often such nodes were.

A path's probability is a product of probabilities of single tokens. Each of these is calibrated, but what is slightly too low
in each is far too low in the product. So nodes are counted by their path probability: what they promised, and what came. The
correction keeps the order of nodes. Trees are built as before; only how many of their nodes are worth reading is decided by it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import accumulate

BUCKETS = 17
"""By half powers of two: path probabilities from 1 down to 2^-8, and all below."""
DECAY = 0.999
"""For each tree: a tree of 700 trees ago counts half."""
INITIAL = 16.0
"""Promised nodes that the factors of a new table count as, in each bucket."""

INITIAL_FACTORS: dict[tuple[bool, bool], tuple[float, ...]] = {
    (False, False): (
        1.0,
        1.09,
        1.18,
        1.42,
        1.43,
        1.67,
        1.59,
        1.74,
        1.89,
        2.11,
        2.12,
        1.82,
        1.97,
        2.39,
        2.75,
        3.42,
        6.28,
    ),
    (False, True): (
        1.09,
        1.28,
        1.55,
        1.64,
        1.81,
        2.02,
        2.16,
        2.42,
        2.35,
        2.45,
        2.66,
        2.7,
        2.74,
        2.85,
        5.21,
        7.79,
        10.1,
    ),
    (True, False): (
        1.11,
        1.3,
        1.4,
        1.58,
        1.81,
        1.99,
        2.19,
        2.45,
        2.78,
        2.76,
        2.61,
        2.38,
        3.84,
        3.55,
        4.19,
        4.76,
        5.81,
    ),
    (True, True): (
        1.15,
        1.46,
        1.72,
        1.91,
        1.97,
        2.25,
        2.62,
        3.19,
        3.35,
        3.53,
        3.75,
        4.63,
        4.02,
        3.88,
        3.19,
        7.86,
        9.32,
    ),
}
"""By bucket: what came of what was promised, over 60 recorded values (`bench replay --seed 1`): whether completions under the
constraint were begun before, and whether there is a prompt."""


class PromiseTable:
    """What the nodes of draft trees promised, and what came of it. Safe to share between threads."""

    def __init__(self, factors: Sequence[float]) -> None:
        """A table that begins with these factors, by bucket."""
        self._promised = [INITIAL] * BUCKETS
        self._came = [INITIAL * factor for factor in factors]
        self._lock = threading.Lock()

    def corrected(self, probabilities: Sequence[float]) -> list[float]:
        """Probabilities that nodes are accepted, falling.

        Args:
            probabilities: path probabilities of the nodes of a tree, without the root; falling.
        """
        with self._lock:
            factors = [came / promised for came, promised in zip(self._came, self._promised, strict=True)]
        found = (min(1.0, one * factors[_bucket(one)]) for one in probabilities)
        return list(accumulate(found, min))

    def verified(self, probabilities: Sequence[float]) -> None:
        """Records that the model reads nodes with these path probabilities."""
        with self._lock:
            for bucket in range(BUCKETS):
                self._promised[bucket] *= DECAY
                self._came[bucket] *= DECAY
            for one in probabilities:
                self._promised[_bucket(one)] += one

    def accepted(self, probability: float) -> None:
        """Records that a node with this path probability was accepted."""
        with self._lock:
            self._came[_bucket(probability)] += 1.0


def _bucket(probability: float) -> int:
    return min(BUCKETS - 1, int(-2.0 * math.log2(max(probability, 2.0**-20))))
