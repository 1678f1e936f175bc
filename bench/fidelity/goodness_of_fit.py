"""Whether samples fit a distribution: the G-test."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def g_test(counts: Mapping[K, int], distribution: Mapping[K, float], *, least: float = 5.0) -> float:
    """p-value of the G-test (likelihood ratio against multinomial counts; Sokal and Rohlf 1981, ch. 17).

    Args:
        counts: how often each outcome occurred.
        distribution: probability of each possible outcome, of sum 1.
        least: outcomes with a lower expected count are pooled.

    Returns:
        Probability of a fit at least this bad if the distribution is true; 0 if an impossible outcome occurred.
    """
    import torch

    total = sum(counts.values())
    if any(distribution.get(outcome, 0.0) == 0.0 for outcome, n in counts.items() if n):
        return 0.0
    seen, expected = [0.0], [0.0]  # the first cell pools rare outcomes
    for outcome, p in distribution.items():
        if p * total < least:
            seen[0] += counts.get(outcome, 0)
            expected[0] += p * total
        else:
            seen.append(counts.get(outcome, 0))
            expected.append(p * total)
    cells = [(o, e) for o, e in zip(seen, expected, strict=True) if e > 0]
    g = 2 * math.fsum(o * math.log(o / e) for o, e in cells if o)
    degrees = len(cells) - 1
    if degrees < 1:
        return 1.0
    tail = torch.special.gammaincc(
        torch.tensor(degrees / 2, dtype=torch.float64), torch.tensor(max(g, 0.0) / 2, dtype=torch.float64)
    )
    return float(tail)
