"""Resampling schemes: N indices among which particle i is expected N w_i times (Douc, Cappé and Moulines 2005)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from constrained.sampling.randomness import RESAMPLING, Randomness, Scores

Indices = NDArray[np.intp]
Resampling = Callable[[Scores, Randomness, int], Indices]
"""(normalised weights float64 [N], randomness, number of the step) -> indices [N], ascending."""


def multinomial(weights: Scores, randomness: Randomness, step: int) -> Indices:
    """N independent draws."""
    return _draws(weights, len(weights), randomness, step)


def residual(weights: Scores, randomness: Randomness, step: int) -> Indices:
    """The whole part of N w_i deterministically, and independent draws for the rest."""
    expected = len(weights) * weights
    # Rounding must not make 2.9999999 out of a 3, and leave it to a draw.
    sure = np.floor(expected + 1e-9).astype(np.intp)
    rest = np.maximum(expected - sure, 0.0)
    kept = np.repeat(np.arange(len(weights)), sure)
    missing = len(weights) - len(kept)
    if not missing:
        return kept
    return np.sort(np.concatenate([kept, _draws(rest / rest.sum(), missing, randomness, step)]))


def stratified(weights: Scores, randomness: Randomness, step: int) -> Indices:
    """One draw in each of N equal strata."""
    count = len(weights)
    return _at((np.arange(count) + randomness.uniform(count, step, RESAMPLING)) / count, weights)


def systematic(weights: Scores, randomness: Randomness, step: int) -> Indices:
    """Equally spaced points with one common random offset."""
    count = len(weights)
    return _at((np.arange(count) + randomness.uniform(1, step, RESAMPLING)) / count, weights)


RESAMPLINGS: dict[str, Resampling] = {
    "multinomial": multinomial,
    "residual": residual,
    "stratified": stratified,
    "systematic": systematic,
}
"""Name -> scheme."""


def _draws(weights: Scores, count: int, randomness: Randomness, step: int) -> Indices:
    with np.errstate(divide="ignore"):
        scores = np.log(weights)
    numbers = np.arange(len(weights))
    # Each draw has its own outcome numbers, so that their noise is independent.
    drawn = [randomness.pick(scores, numbers + i * len(weights), step, RESAMPLING) for i in range(count)]
    return np.sort(np.array(drawn, dtype=np.intp))


def _at(points: Scores, weights: Scores) -> Indices:
    ends = np.cumsum(weights)
    last = int(np.flatnonzero(weights)[-1])  # rounding may leave the last point above the last end
    return np.minimum(np.searchsorted(ends, points, side="right"), last)
