"""Constrained adaptive rejection sampling (Parys et al. 2025): rejection that never makes the same mistake twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrained.sampling.attempts import ATTEMPTS, PARALLEL, check_numbers, until_valid
from constrained.sampling.base import Pool, Sample, Sampler
from constrained.sampling.trie import ROOT, Trie, Tries
from constrained.sampling.trie_walk import Accept, Use, Walk
from constrained.sampling.warpers import Warp, sampling_warp


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

    attempts: int = ATTEMPTS
    parallel: int = PARALLEL
    tries: Tries | None = None

    def __post_init__(self) -> None:
        check_numbers(attempts=self.attempts, parallel=self.parallel)

    def warp(self, **settings: Any) -> Warp:
        """Temperature 1 where none is given; no truncation."""
        return sampling_warp(settings, "cars")

    def law(self, warp: Warp) -> str:
        """Always ``conditional``."""
        return "conditional"

    def draw(self, pool: Pool, count: int) -> Sample:
        """Texts of the conditional law, independent of each other.

        Raises:
            BudgetExhausted: `learned` has a certain upper bound of P(L).
        """
        trie = Trie() if self.tries is None else self.tries.of(pool)
        with trie.lock:
            return until_valid(
                pool,
                count,
                attempts=self.attempts,
                parallel=self.parallel,
                write=lambda texts: write_through(pool, trie, texts, Accept()),
                mass=lambda: trie.theta[ROOT],
                certain=True,
            )


def write_through(pool: Pool, trie: Trie, texts: Sequence[Any], use: Use) -> None:
    """Writes texts to their ends, all of them through one trie, which learns from each as soon as it ends.

    What one text teaches may change what another one draws next, but not its law: a text remembers by which bound
    each of its tokens was drawn.
    """
    walks = [Walk(trie, text, use) for text in texts]
    while writing := [walk for walk in walks if not walk.text.finish]:
        for walk, position in zip(writing, pool.read([walk.text for walk in writing]), strict=True):
            walk.step(position)
