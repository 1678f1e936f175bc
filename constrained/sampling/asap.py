"""Adaptive sampling with approximate expected futures (Park et al. 2024): masking corrected by learned bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from constrained.sampling.attempts import require_positive_ints
from constrained.sampling.base import ParticleBatch, SampleBatch, UntruncatedSampler, estimate_evidence
from constrained.sampling.cars import draw_with_trie, run_through_trie
from constrained.sampling.ends import Ends, check_ends
from constrained.sampling.trie import Trie, Tries, below, log_total
from constrained.sampling.trie_walk import WeightByRatio


@dataclass(frozen=True, slots=True)
class ASAp(UntruncatedSampler):
    """The sampler ``"asap"``: masking, corrected by bounds that earlier sequences taught.

    The distribution of a sequence converges to the conditional one as the trie grows. Weighted sequences are unbiased
    from the first one on.

    Attributes:
        parallel: sequences that are drawn in one batch; they learn only from earlier batches.
        tries: tries of earlier calls; None: each call starts with an empty trie.
        ends: see `constrained.sampling.ends`.
    """

    law: ClassVar = "asap"  # local for the first sequence of a trie, conditional in the limit

    parallel: int = 1
    tries: Tries | None = None
    ends: Ends = "model"

    def __post_init__(self) -> None:
        check_ends(self.ends)
        require_positive_ints(parallel=self.parallel)

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws sequences; each depends on the earlier ones only through the trie."""
        batch.reuse_logits()

        def draw(trie: Trie, kept: bool) -> SampleBatch:
            texts: list[Any] = []
            while len(texts) < count:
                width = min(self.parallel, count - len(texts))
                new = batch.start([batch.randomness(trie.next_attempt()) for _ in range(width)])
                run_through_trie(batch, trie, new, WeightByRatio(), kept)
                texts += new
            evidence, error = estimate_evidence([text.log_weight for text in texts])
            alive = [text for text in texts if text.finish != "dead"]
            known = log_total(list({tuple(text.tokens): text.logprob for text in alive}.values()))
            bounds = min(below(known), trie.bound()), trie.bound()
            return SampleBatch(texts, evidence, error, count, len(alive), bounds)

        return draw_with_trie(batch, self.tries, draw)
