"""Tests of draws against an exact distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def fit(counts: Mapping[Any, int], exact: Mapping[Any, float]) -> float:
    """p-value of the G-test, by Wilson and Hilferty's (1931) cube root for the chi-square distribution.

    Args:
        counts: outcome -> how often it was drawn.
        exact: outcome -> its probability, up to a factor. Outcomes that expect fewer than five draws are one cell.
    """
    strangers = set(counts) - set(exact)
    assert not strangers, f"drawn, but of probability 0: {strangers}"
    scale = sum(counts.values()) / math.fsum(exact.values())
    cells = [(p * scale, counts.get(outcome, 0)) for outcome, p in exact.items()]
    rare = [cell for cell in cells if cell[0] < 5]
    cells = [cell for cell in cells if cell[0] >= 5]
    if rare:
        cells.append((math.fsum(e for e, _ in rare), sum(n for _, n in rare)))
    freedom = len(cells) - 1
    if freedom < 1:
        return 1.0
    g = 2 * math.fsum(n * math.log(n / e) for e, n in cells if n)
    z = ((max(g, 1e-12) / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc(z / math.sqrt(2))


def fisher(p_values: Sequence[float]) -> float:
    """Fisher's joint p-value: the chi-square tail with 2 n degrees of freedom in closed form."""
    half = -math.fsum(math.log(max(p, 1e-300)) for p in p_values)
    terms = [k * math.log(half) - math.lgamma(k + 1) - half for k in range(len(p_values))]
    return math.fsum(map(math.exp, terms))


def z_score(values: Sequence[float], expected: float) -> float:
    """Distance of the mean of independent values from what it should be, in standard errors."""
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values))
    spread = max(spread, 1e-7 * abs(expected))  # values that are equal but for rounding
    return (mean - expected) / spread
