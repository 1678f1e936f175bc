"""Constrained adaptive rejection sampling (Parys et al. 2025): rejection that never repeats a rejected prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from constrained.sampling.attempts import (
    DEFAULT_ATTEMPTS,
    DEFAULT_PARALLEL,
    require_positive_ints,
    sample_until_valid,
)
from constrained.sampling.base import ParticleBatch, SampleBatch, UntruncatedSampler
from constrained.sampling.ends import Ends, check_ends
from constrained.sampling.trie import ROOT, Trie, TrieOutdated, Tries
from constrained.sampling.trie_walk import AcceptByRatio, RatioPolicy, TrieWalk


@dataclass(frozen=True, slots=True)
class CARS(UntruncatedSampler):
    """The sampler ``"cars"``: every sequence is an exact draw of the conditional distribution.

    An attempt draws sequence w with probability P(w) / theta(root), whatever the trie contains; theta(root) falls
    towards P(L) with every attempt, and with it the number of attempts that a sequence takes.

    Attributes:
        attempts: greatest number of attempts per requested sequence.
        parallel: greatest number of attempts in one batch.
        tries: tries of earlier calls; None: each call starts with an empty trie.
        ends: see `constrained.sampling.ends`.
    """

    law: ClassVar = "conditional"

    attempts: int = DEFAULT_ATTEMPTS
    parallel: int = DEFAULT_PARALLEL
    tries: Tries | None = None
    ends: Ends = "model"

    def __post_init__(self) -> None:
        check_ends(self.ends)
        require_positive_ints(attempts=self.attempts, parallel=self.parallel)

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws independent sequences from the conditional distribution.

        Raises:
            BudgetExhausted: `learned` has a guaranteed upper bound of P(L).
        """
        batch.reuse_logits()
        return draw_with_trie(
            batch,
            self.tries,
            lambda trie, kept: sample_until_valid(
                batch,
                count,
                attempts=self.attempts,
                parallel=self.parallel,
                randomness=lambda _: batch.randomness(trie.next_attempt()),
                write=lambda texts: run_through_trie(batch, trie, texts, AcceptByRatio(), kept),
                mass=lambda: trie.log_theta[ROOT],
                certain=True,
            ),
        )


def draw_with_trie(
    batch: ParticleBatch, tries: Tries | None, draw: Callable[[Trie, bool], SampleBatch]
) -> SampleBatch:
    """What `draw` makes with a trie, and whether it is from earlier calls; once more if that of these is outdated."""
    trie = Trie() if tries is None else tries.of(batch.key)
    with trie.lock:
        try:
            return draw(trie, tries is not None)
        except TrieOutdated:
            trie.forget()
            return draw(trie, False)


def run_through_trie(
    batch: ParticleBatch, trie: Trie, texts: Sequence[Any], policy: RatioPolicy, kept: bool = False
) -> float:
    """Completes sequences through one trie, which learns from each sequence when it ends.

    Concurrent sequences may change each other's next draw, but not the distribution: each sequence remembers the bound
    that each of its tokens was drawn with.

    Args:
        batch: runs the model.
        trie: what was learned; it begins anew if the model has changed.
        texts: new sequences.
        policy: the use of the ratio.
        kept: whether the trie is from earlier calls.

    Returns:
        Log of the bound of the mass of all valid sequences when they were started.

    Raises:
        TrieOutdated: the model has changed, which showed only on the way.
    """
    begun = [text for text in texts if not text.finish]  # the others are the empty text, and complete
    if not begun:
        return trie.log_theta[ROOT]
    positions = batch.forward(begun)
    if not trie.recognize(positions[0].log_probs):
        trie.forget()
        trie.recognize(positions[0].log_probs)
    share = trie.log_theta[ROOT]
    writing = [TrieWalk(trie, text, policy, kept) for text in begun]
    while True:
        for walk, position in zip(writing, positions, strict=True):
            walk.step(position)
        writing = [walk for walk in writing if not walk.text.finish]
        if not writing:
            return share
        positions = batch.forward([walk.text for walk in writing])
