"""A row of scores, as a draw reads it: the few tokens that can win, and the mass of all of them.

A key is a score plus noise (`spec.noise`). Keys that decide are always made in one way, in float64 by numpy; what is
native here only finds out, from the same integers, which tokens are worth it. Must not know: automata, models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.native import core
from spec.noise import GumbelNoise

_GREATEST_NOISE = 23.0  # a little more than it is
_MANY = 1024

ScoreRow = NDArray[np.floating[Any]]


def gumbel_candidates(
    scores: ScoreRow,
    noise: GumbelNoise,
    position: int,
    count: int,
    *,
    ids: NDArray[np.integer[Any]] | None = None,
    scale: float = 1.0,
) -> NDArray[np.int64]:
    """Which tokens can have the largest keys.

    Noise is bounded, so what lies too far below the keys of the likeliest cannot overtake them, and its noise need not
    be made: the result is the same.

    Args:
        scores: float32 or float64 [n]; no NaN.
        noise: of the draw.
        position: absolute position.
        count: how many of the largest keys are wanted, at least 1.
        ids: of the tokens, int [n]; 0 .. n - 1 by default.
        scale: keys are scores * scale + noise.

    Returns:
        Ascending indices, at least those of the `count` largest keys above -inf; not many more, if this is native.
    """
    if core is not None and scores.dtype in (np.float32, np.float64):
        if ids is not None and len(ids) >= _MANY and _crowded(ids):
            # In a whole row the words of neighbours are made together, which is faster than the row is made.
            row = np.full(int(ids[-1]) + 1, -np.inf, dtype=scores.dtype)
            row[ids] = scores
            return np.searchsorted(ids, gumbel_candidates(row, noise, position, count, scale=scale))
        tokens = None if ids is None else np.ascontiguousarray(ids, dtype=np.int64)
        found = core.gumbel_candidates(
            np.ascontiguousarray(scores),
            scale,
            tokens,
            noise.seed,
            noise.sequence,
            noise.purpose,
            position,
            count,
        )
        return np.array(found, dtype=np.int64)
    wide = scores.astype(np.float64) * scale
    able = np.flatnonzero(wide > -np.inf)
    if len(able) > 2 * count:
        likely = np.argpartition(-wide, 2 * count)[: 2 * count]
        keys = wide[likely] + noise.gumbel(position, likely if ids is None else ids[likely])
        able = np.flatnonzero(wide >= np.partition(keys, -count)[-count] - _GREATEST_NOISE)
    return able


def _crowded(ids: NDArray[np.integer[Any]]) -> bool:
    """Whether ids ascend, and leave out less than three of four."""
    return 4 * len(ids) > int(ids[-1]) and int(ids[0]) >= 0 and bool((ids[1:] > ids[:-1]).all())


def top_indices(scores: ScoreRow, count: int) -> NDArray[np.int64]:
    """The ids of the `count` largest scores, float32 or float64 [n], best first; of equal ones the lower id first."""
    if core is not None and scores.dtype in (np.float32, np.float64):
        return np.array(core.top_indices(np.ascontiguousarray(scores), count), dtype=np.int64)
    return np.argsort(-scores, kind="stable")[:count]


def log_sum_exp(scores: ScoreRow, scale: float = 1.0) -> float:
    """log(sum(exp(scores * scale))) for float [n], -inf for none; NaN if one is, else inf if one is."""
    if core is not None and scores.dtype in (np.float32, np.float64):
        return float(core.log_sum_exp(np.ascontiguousarray(scores), scale))
    if not len(scores):
        return -np.inf
    wide = scores.astype(np.float64) * scale
    top = float(wide.max())
    if not np.isfinite(top):
        return top
    return top + float(np.log(np.exp(wide - top).sum()))
