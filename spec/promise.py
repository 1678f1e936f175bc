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
        1.15,
        1.25,
        1.4,
        1.5,
        1.7,
        1.6,
        1.75,
        1.95,
        2.1,
        2.0,
        2.1,
        1.95,
        2.3,
        2.9,
        3.5,
        7.0,
    ),
    (False, True): (
        1.05,
        1.2,
        1.45,
        1.6,
        1.65,
        1.85,
        2.1,
        2.1,
        2.3,
        2.35,
        2.15,
        2.7,
        2.9,
        3.9,
        5.4,
        9.0,
        9.0,
    ),
    (True, False): (1.1, 1.35, 1.45, 1.8, 1.9, 1.9, 2.4, 2.55, 2.8, 2.65, 3.1, 2.55, 3.9, 3.7, 4.5, 5.0, 5.0),
    (True, True): (
        1.15,
        1.35,
        1.65,
        1.95,
        2.15,
        2.2,
        2.65,
        3.2,
        3.45,
        3.8,
        4.05,
        4.15,
        4.4,
        4.4,
        4.4,
        5.0,
        5.0,
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
