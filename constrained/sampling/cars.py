"""Constrained adaptive rejection sampling (Parys et al. 2025): rejection that never repeats a rejected prefix."""

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
    """The sampler ``"cars"``: every sequence is an exact draw of the conditional distribution.

    An attempt draws sequence w with probability P(w) / theta(root), whatever the trie contains; theta(root) falls
    towards P(L) with every attempt, and with it the number of attempts that a sequence takes.

    Attributes:
        attempts: greatest number of attempts per requested sequence.
        parallel: greatest number of attempts in one batch.
        tries: tries of earlier calls; None: each call starts with an empty trie.
    """

    attempts: int = DEFAULT_ATTEMPTS
    parallel: int = DEFAULT_PARALLEL
    tries: Tries | None = None

    def __post_init__(self) -> None:
        require_positive_ints(attempts=self.attempts, parallel=self.parallel)

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature 1 where none is given; no truncation."""
        return untruncated_warper(settings, "cars")

    def distribution(self, warper: LogitsWarper) -> str:
        """Always ``conditional``."""
        return "conditional"

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws independent sequences from the conditional distribution.

        Raises:
            BudgetExhausted: `learned` has a guaranteed upper bound of P(L).
        """
        trie = Trie() if self.tries is None else self.tries.of(batch)
        with trie.lock:
            return sample_until_valid(
                batch,
                count,
                attempts=self.attempts,
                parallel=self.parallel,
                write=lambda texts: run_through_trie(batch, trie, texts, AcceptByRatio()),
                mass=lambda: trie.theta[ROOT],
                certain=True,
            )


def run_through_trie(batch: ParticleBatch, trie: Trie, texts: Sequence[Any], policy: RatioPolicy) -> None:
    """Completes sequences through one trie, which learns from each sequence when it ends.

    Concurrent sequences may change each other's next draw, but not the distribution: each sequence remembers the bound
    that each of its tokens was drawn with.
    """
    walks = [TrieWalk(trie, text, policy) for text in texts]
    while writing := [walk for walk in walks if not walk.text.finish]:
        for walk, position in zip(writing, batch.forward([walk.text for walk in writing]), strict=True):
            walk.step(position)
