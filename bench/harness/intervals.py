"""Intervals around medians, and how intervals are written in the tables of benches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from constrained.cli.intervals import NO_VALUE, QUANTILE, paired_share_interval


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median, by order statistics: two of the values, whatever the distribution.

    Returns:
        None if fewer than six values cannot bound it.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, term, rank = 0.0, 0.5**n if n < 1000 else 0.0, -1
    if n >= 1000:  # the normal approximation of the binomial distribution
        rank = int(n / 2 - QUANTILE * math.sqrt(n) / 2) - 1
    else:
        for k in range(n // 2):
            tail += term
            if tail > 0.025:
                break
            rank, term = k, term * (n - k) / (k + 1)
    return None if rank < 0 else (ordered[rank], ordered[n - 1 - rank])


def format_paired_difference(differences: Sequence[int], sizes: Sequence[int]) -> str:
    """The difference of two shares over the same items in points, and its interval; see `paired_share_interval`."""
    if not sum(sizes):
        return NO_VALUE
    low, high = paired_share_interval(differences, sizes)
    return f"{100 * sum(differences) / sum(sizes):+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def format_median_interval(values: Sequence[float], scale: float = 1.0) -> str:
    """The median and its interval, three significant digits each."""
    if not values:
        return NO_VALUE
    ordered = sorted(values)
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    around = median_interval(values)
    bounds = f" ({around[0] * scale:.3g}–{around[1] * scale:.3g})" if around else ""
    return f"{median * scale:.3g}{bounds}"
