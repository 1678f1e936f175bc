"""Constrained adaptive rejection sampling (Parys et al. 2025): rejection that never makes the same mistake twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrained.sampling.attempts import (
    DEFAULT_ATTEMPTS,
    DEFAULT_PARALLEL,
    require_positive_ints,
    sample_until_valid,
)
from constrained.sampling.base import ParticleBatch, SampleBatch, Sampler
from constrained.sampling.trie import ROOT, Trie, Tries
from constrained.sampling.trie_walk import AcceptByRatio, RatioPolicy, TrieWalk
from constrained.sampling.warpers import LogitsWarper, untruncated_warper


@dataclass(frozen=True, slots=True)
class CARS(Sampler):
    """The sampler ``"cars"``: every text is an exact draw of the conditional law.

    An attempt draws text w with probability P(w) / theta(root), whatever was learned before; theta(root) falls towards
    P(L) with every attempt, and with it the number of attempts that a text takes.

    Attributes:
        attempts: how many may be made for each wanted text.
        parallel: how many are made side by side at most.
        tries: memory of earlier calls; without one each call learns for itself.
    """

    attempts: int = DEFAULT_ATTEMPTS
    parallel: int = DEFAULT_PARALLEL
    tries: Tries | None = None

    def __post_init__(self) -> None:
        require_positive_ints(attempts=self.attempts, parallel=self.parallel)

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature 1 where none is given; no truncation."""
        return untruncated_warper(settings, "cars")

    def distribution(self, warp: LogitsWarper) -> str:
        """Always ``conditional``."""
        return "conditional"

    def draw(self, pool: ParticleBatch, count: int) -> SampleBatch:
        """Texts of the conditional law, independent of each other.

        Raises:
            BudgetExhausted: `learned` has a certain upper bound of P(L).
        """
        trie = Trie() if self.tries is None else self.tries.of(pool)
        with trie.lock:
            return sample_until_valid(
                pool,
                count,
                attempts=self.attempts,
                parallel=self.parallel,
                write=lambda texts: run_through_trie(pool, trie, texts, AcceptByRatio()),
                mass=lambda: trie.theta[ROOT],
                certain=True,
            )


def run_through_trie(pool: ParticleBatch, trie: Trie, texts: Sequence[Any], use: RatioPolicy) -> None:
    """Writes texts to their ends, all of them through one trie, which learns from each as soon as it ends.

    What one text teaches may change what another one draws next, but not its law: a text remembers by which bound
    each of its tokens was drawn.
    """
    walks = [TrieWalk(trie, text, use) for text in texts]
    while writing := [walk for walk in walks if not walk.text.finish]:
        for walk, position in zip(writing, pool.forward([walk.text for walk in writing]), strict=True):
            walk.step(position)
