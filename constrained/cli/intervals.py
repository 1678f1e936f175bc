"""Intervals around shares and their differences, and the sign test of paired results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

NO_VALUE = "-"
"""Shown where there is nothing to show."""

QUANTILE = 1.959964
"""Quantile of the normal distribution for 95 %."""


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927), within 0 and 1; `total` is at least 1."""
    share, spread = count / total, QUANTILE * QUANTILE / total
    centre = share + spread / 2
    half = QUANTILE * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))


def paired_share_interval(
    differences: Sequence[int], sizes: Sequence[int], *, seed: int = 0, draws: int = 2000
) -> tuple[float, float]:
    """A 95 % interval of the difference of two shares over the same items, by a bootstrap over the items (Efron 1979).

    Args:
        differences: of each item: what one has more than the other.
        sizes: of each item: what both could have; their sum is at least 1.
        seed: of the draws.
        draws: samples of items, with replacement.
    """
    some = np.random.default_rng(seed).integers(len(sizes), size=(draws, len(sizes)))
    totals = np.asarray(sizes)[some].sum(1)
    shares = np.asarray(differences)[some].sum(1)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(low), float(high)


def sign_test(better: int, worse: int) -> float:
    """Two-sided p-value of as many pairs that differ this way and that, if both ways were as likely."""
    n, k = better + worse, min(better, worse)
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, i) for i in range(k + 1))
    return min(1.0, float(2 * tail / 2**n))


def format_share_interval(count: int, total: int) -> str:
    """A count, its percentage of the total, and the interval of the percentage."""
    if not total:
        return NO_VALUE
    low, high = share_interval(count, total)
    return f"{count} ({100 * count / total:.1f} %, {100 * low:.1f}–{100 * high:.1f})"
