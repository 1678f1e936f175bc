"""Sampling of the k draft tokens of one position from a draft distribution q, and its enumeration.

Draft tokens are in the order in which a rule tries them. All arrays are float64 ``[vocabulary]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ProbabilityVector = NDArray[np.float64]
DraftIds = tuple[int, ...]


class DraftSampling(Protocol):
    """A method of sampling draft tokens."""

    def enumerate_drafts(self, q: ProbabilityVector, k: int) -> Iterator[tuple[float, DraftIds]]:
        """All possible tuples of draft tokens, with their probabilities."""

    def sample_drafts(self, q: ProbabilityVector, k: int, generator: np.random.Generator) -> DraftIds:
        """A random tuple."""


class WithReplacement:
    """k draws from q; a token may occur twice."""

    def enumerate_drafts(self, q: ProbabilityVector, k: int) -> Iterator[tuple[float, DraftIds]]:
        """All sequences of k tokens."""
        for drafts in product(np.flatnonzero(q).tolist(), repeat=k):
            yield float(np.prod(q[list(drafts)])), drafts

    def sample_drafts(self, q: ProbabilityVector, k: int, generator: np.random.Generator) -> DraftIds:
        """One sequence."""
        return tuple(generator.choice(len(q), size=k, p=q).tolist())


class WithoutReplacement:
    """k draws from q without replacement (fewer, where q has fewer tokens)."""

    def enumerate_drafts(self, q: ProbabilityVector, k: int) -> Iterator[tuple[float, DraftIds]]:
        """All sequences of different tokens."""
        begun: list[tuple[float, DraftIds, ProbabilityVector]] = [(1.0, (), q)]
        for _ in range(min(k, int(np.count_nonzero(q)))):
            begun = [
                (probability * left[token], (*drafts, token), condition_without(left, token))
                for probability, drafts, left in begun
                for token in np.flatnonzero(left).tolist()
            ]
        for probability, drafts, _left in begun:
            yield float(probability), drafts

    def sample_drafts(self, q: ProbabilityVector, k: int, generator: np.random.Generator) -> DraftIds:
        """One sequence."""
        size = min(k, int(np.count_nonzero(q)))
        with np.errstate(divide="ignore"):
            keys = np.log(q) + generator.gumbel(size=len(q))
        return tuple(np.argsort(-keys)[:size].tolist())


class GreedyDrafts:
    """The k - 1 most likely tokens of q, and one draw from the remaining tokens, if there are any."""

    def enumerate_drafts(self, q: ProbabilityVector, k: int) -> Iterator[tuple[float, DraftIds]]:
        """One tuple for each of the remaining tokens."""
        best, rest = split_top(q, k)
        if not rest.any():
            yield 1.0, best
        for token in np.flatnonzero(rest).tolist():
            yield float(rest[token]), (*best, token)

    def sample_drafts(self, q: ProbabilityVector, k: int, generator: np.random.Generator) -> DraftIds:
        """A random tuple."""
        best, rest = split_top(q, k)
        return (*best, int(generator.choice(len(q), p=rest))) if rest.any() else best


def split_top(q: ProbabilityVector, k: int) -> tuple[DraftIds, ProbabilityVector]:
    """The k - 1 most likely tokens (ties: the lower id), and q without them, normalised (zeros if nothing is left)."""
    best = np.argsort(-q, kind="stable")[: min(k - 1, np.count_nonzero(q))]
    rest = q.copy()
    rest[best] = 0.0
    return tuple(best.tolist()), rest / rest.sum() if rest.any() else rest


def condition_without(q: ProbabilityVector, token: int) -> ProbabilityVector:
    """Q given that it is not this token (zeros if q has no other token)."""
    left: ProbabilityVector = q.copy()
    left[token] = 0.0
    if left.any():
        left /= left.sum()
    return left
