"""Adaptive sampling with approximate expected futures (Park et al. 2024): masking that learns what masking wastes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.sampling.attempts import require_positive_ints
from constrained.sampling.base import ParticleBatch, SampleBatch, Sampler, estimate_evidence
from constrained.sampling.cars import run_through_trie
from constrained.sampling.trie import Trie, Tries
from constrained.sampling.trie_walk import WeightByRatio
from constrained.sampling.warpers import LogitsWarper, untruncated_warper


@dataclass(frozen=True, slots=True)
class ASAp(Sampler):
    """The sampler ``"asap"``: no text is thrown away; the first are drawn by masking, later ones by what was learned.

    The law of a text tends to the conditional one as more are drawn from one trie, and is not there after any number
    of them. The weights make up for the difference: weighted texts are unbiased from the first one on.

    Attributes:
        parallel: texts that are drawn side by side; the first of them do not profit from the others.
        tries: memory of earlier calls; without one each call learns for itself.
    """

    parallel: int = 1
    tries: Tries | None = None

    def __post_init__(self) -> None:
        require_positive_ints(parallel=self.parallel)

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature 1 where none is given; no truncation."""
        return untruncated_warper(settings, "asap")

    def distribution(self, warp: LogitsWarper) -> str:
        """Always ``asap``: local for the first text of a trie, conditional in the limit."""
        return "asap"

    def draw(self, pool: ParticleBatch, count: int) -> SampleBatch:
        """Texts, of which each depends on those before it only by what the trie has learned."""
        trie = Trie() if self.tries is None else self.tries.of(pool)
        texts: list[Any] = []
        with trie.lock:
            while len(texts) < count:
                width = min(self.parallel, count - len(texts))
                new = pool.start([pool.randomness(len(texts) + i) for i in range(width)])
                run_through_trie(pool, trie, new, WeightByRatio())
                texts += new
        evidence, error = estimate_evidence([text.log_weight for text in texts])
        alive = sum(text.finish != "dead" for text in texts)
        return SampleBatch(texts, evidence, error, count, alive, bounds=(0.0, trie.theta[0]))
