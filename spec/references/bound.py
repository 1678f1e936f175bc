"""The optimal acceptance: the optimal transport between the draft tokens and the target distribution."""

from __future__ import annotations

import numpy as np

from constrained.spec.references.drafting import ProbabilityVector

MAX_VOCABULARY = 14
"""Vocabulary up to which all sets of tokens are visited."""


def optimal_acceptance(p: ProbabilityVector, q: ProbabilityVector, k: int) -> float:
    """The largest probability with which a draw from p can be one of k draws from q without replacement.

    By max-flow min-cut (Hu et al. 2025) it is the least value, over all sets H of tokens, of
    1 - p(H) + P(some draft token is in H); all sets are visited.

    Raises:
        ValueError: the vocabulary has more than `MAX_VOCABULARY` tokens.
    """
    size = len(p)
    if size > MAX_VOCABULARY:
        raise ValueError(f"{size} tokens have too many sets: at most {MAX_VOCABULARY}")
    sets = np.arange(1 << size)
    inside = (sets[:, None] >> np.arange(size)) & 1
    outside = (1 - inside) @ q  # not 1 - q(H): that loses the digits of a small rest
    drafted = np.zeros(
        len(sets)
    )  # of each set: the probability that it is the set of the first |set| draft tokens
    drafted[0] = 1.0
    for one in range(1, len(sets)):
        for token in np.flatnonzero(inside[one]).tolist():
            before = one ^ (1 << token)
            if q[token] > 0:
                drafted[one] += drafted[before] * q[token] / outside[before]
    within = np.where(inside.sum(axis=1) == min(k, np.count_nonzero(q)), drafted, 0.0)
    for token in range(size):  # of each set: the probability that all draft tokens are in it
        has = inside[:, token] == 1
        within[has] += within[sets[has] ^ (1 << token)]
    return float((1.0 - inside @ p + 1.0 - within[::-1]).min())  # reversed: the complement of each set
