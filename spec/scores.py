"""Operations on a vector of scores (logits after temperature): top k, log-sum-exp, candidates of the Gumbel-max rule.

A Gumbel key is a score plus noise (`constrained.spec.noise`). The keys that decide a draw are always computed by numpy in float64; the
native code here only finds out, from the identical random words, for which tokens they must be computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.spec import _core
from constrained.spec.noise import GumbelNoise

_DENSE_MIN = 1024  # ids from which scattering into a dense vector can pay

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
    """Indices of all tokens that can have one of the `count` largest keys.

    The noise is bounded: a score that lies too far below the keys of the likeliest tokens cannot overtake them, so its
    noise need not be computed.

    Args:
        scores: floating ``[n]``; no NaN.
        noise: of the sequence.
        position: absolute position, 0 .. 2**32 - 1.
        count: how many of the largest keys are wanted, at least 1.
        ids: token ids of the scores, int ``[n]``; 0 .. n - 1 by default.
        scale: keys are scores * scale + noise.

    Returns:
        Ascending indices: those of the `count` largest keys above -inf, and few others.
    """
    scores = _contiguous(scores)
    if ids is not None and len(ids) >= _DENSE_MIN and _is_dense(ids):
        # The random words of four neighbouring ids are computed together, which a dense vector takes advantage of.
        dense = np.full(int(ids[-1]) + 1, -np.inf, dtype=scores.dtype)
        dense[ids] = scores
        return np.searchsorted(ids, gumbel_candidates(dense, noise, position, count, scale=scale))
    tokens = None if ids is None else np.ascontiguousarray(ids, dtype=np.int64)
    candidates = _core.gumbel_candidates(
        scores, scale, tokens, noise.seed, noise.sequence, noise.purpose, position, count
    )
    return np.array(candidates, dtype=np.int64)


def top_indices(scores: ScoreRow, count: int) -> NDArray[np.int64]:
    """The indices of the `count` largest scores, floating ``[n]``, best first; of equal scores the lower index first."""
    return np.array(_core.top_indices(_contiguous(scores), count), dtype=np.int64)


def log_sum_exp(scores: ScoreRow, scale: float = 1.0) -> float:
    """log(sum(exp(scores * scale))) of floating ``[n]``.

    -inf for an empty vector; NaN if a score is NaN, otherwise inf if a score is inf.
    """
    return float(_core.log_sum_exp(_contiguous(scores), scale))


def _contiguous(scores: ScoreRow) -> Any:
    """The scores as the native code takes them: contiguous, float32 or float64."""
    dtype = scores.dtype if scores.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(scores, dtype=dtype)


def _is_dense(ids: NDArray[np.integer[Any]]) -> bool:
    """Whether ids ascend and include at least a quarter of the range up to the last one."""
    return 4 * len(ids) > int(ids[-1]) and int(ids[0]) >= 0 and bool((ids[1:] > ids[:-1]).all())
