"""Predicted acceptance: the path probabilities of draft trees, corrected by how often such nodes were accepted.

A path's probability is a product of probabilities of single tokens. Each of these is calibrated, but a small bias in each is a
large one in the product. So nodes are counted by their path probability: the sum of what was predicted, and how many were
accepted. The correction keeps the order of nodes. Trees are built without it; it decides only how many of their nodes a forward
pass verifies.
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
"""Predicted acceptances that the factors of a new table count as, in each bucket."""

_GREEDY: dict[tuple[bool, bool], tuple[float, ...]] = {
    (False, False): (1.0, 1.09, 1.18, 1.42, 1.43, 1.67, 1.59, 1.74, 1.89, 2.11, 2.12, 1.82, 1.97, 2.39, 2.75, 3.42, 6.28),
    (False, True): (1.09, 1.28, 1.55, 1.64, 1.81, 2.02, 2.16, 2.42, 2.35, 2.45, 2.66, 2.7, 2.74, 2.85, 5.21, 7.79, 10.1),
    (True, False): (1.11, 1.3, 1.4, 1.58, 1.81, 1.99, 2.19, 2.45, 2.78, 2.76, 2.61, 2.38, 3.84, 3.55, 4.19, 4.76, 5.81),
    (True, True): (1.15, 1.46, 1.72, 1.91, 1.97, 2.25, 2.62, 3.19, 3.35, 3.53, 3.75, 4.63, 4.02, 3.88, 3.19, 7.86, 9.32),
}  # fmt: skip
_DRAWN = (0.42, 0.39, 0.38, 0.37, 0.33, 0.33, 0.41, 0.45, 0.5, 0.55, 0.65, 0.7, 1.0, 1.2, 1.3, 1.5, 2.0)

INITIAL_FACTORS: dict[tuple[bool, bool, bool], tuple[float, ...]] = {
    (begun, prompt, drawn): _DRAWN if drawn else factors
    for (begun, prompt), factors in _GREEDY.items()
    for drawn in (False, True)
}
"""By (whether completions under the constraint were begun before, whether there is a prompt, whether tokens are drawn at a temperature):
accepted over predicted tokens of each bucket. Greedy over 60 recorded values (`bench replay --seed 1`), drawn over 18 texts of a
real model at temperature 1: no source knows how sure the model is, and a likely token is drawn less often than it is the first."""


class AcceptanceTable:
    """Predicted and actual acceptances by path probability. Safe to share between threads."""

    def __init__(self, factors: Sequence[float]) -> None:
        """A table that begins with these factors, by bucket."""
        self._predicted = [INITIAL] * BUCKETS
        self._accepted = [INITIAL * factor for factor in factors]
        self._lock = threading.Lock()

    def corrected(self, probabilities: Sequence[float]) -> list[float]:
        """Probabilities that nodes are accepted, falling.

        Args:
            probabilities: path probabilities of the nodes of a tree, without the root; falling.
        """
        with self._lock:
            factors = [
                accepted / predicted
                for accepted, predicted in zip(self._accepted, self._predicted, strict=True)
            ]
        corrected = (min(1.0, chance * factors[_bucket(chance)]) for chance in probabilities)
        return list(accumulate(corrected, min))

    def verified(self, probabilities: Sequence[float]) -> None:
        """Records that the model reads nodes with these path probabilities."""
        with self._lock:
            for bucket in range(BUCKETS):
                self._predicted[bucket] *= DECAY
                self._accepted[bucket] *= DECAY
            for chance in probabilities:
                self._predicted[_bucket(chance)] += chance

    def accepted(self, probability: float) -> None:
        """Records that a node with this path probability was accepted."""
        with self._lock:
            self._accepted[_bucket(probability)] += 1.0


def _bucket(probability: float) -> int:
    return min(BUCKETS - 1, int(-2.0 * math.log2(max(probability, 2.0**-20))))
