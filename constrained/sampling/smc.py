"""Sequential Monte Carlo: sequences are extended together, and resampled by weight.

The weight of a particle is multiplied by the W of its proposal after every token. When the weights are too uneven,
particles are resampled by weight, and all weights become their mean. So the mean weight at the end is an unbiased
estimate of P(L) for any number of resampling steps, and the weighted particles approximate the conditional distribution
(Lew et al. 2023; Loula et al. 2025).

The probability of an end that must come is multiplied in at the very end. Otherwise resampling would remove the particles
that finish first: they would have paid for their ends, and the others not yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from constrained.errors import InvalidArgument
from constrained.sampling.attempts import require_positive_ints
from constrained.sampling.awrs import AWRS
from constrained.sampling.base import (
    ParticleBatch,
    SampleBatch,
    TokenSampler,
    UntruncatedSampler,
    draw_or_end,
)
from constrained.sampling.ends import Ends, check_ends, check_proposal_ends
from constrained.sampling.randomness import CHOICES, Scores
from constrained.sampling.resampling import RESAMPLINGS
from constrained.sampling.seen_mass import SeenMass
from constrained.spec.scores import log_sum_exp

Potential = Callable[[bytes, bool], float]
"""(bytes so far, whether the sequence is finished) -> log-score; -inf to end the particle."""


@dataclass(frozen=True, slots=True)
class SMC(UntruncatedSampler):
    """The sampler ``"smc"``: weighted sequences that approximate the conditional distribution.

    Attributes:
        particles: number of particles for one sequence; `Generator.sample` uses one for each requested sequence.
        proposal: draws the tokens.
        threshold: particles are resampled when the effective sample size falls below this share of them; 0: never. The
            weight of an unfinished sequence contains the cost of the constraint so far, not the cost to come: where
            sequences pay at different positions, resampling removes those that pay first. Hence a low default.
        resampling: name of the scheme, see `RESAMPLINGS`.
        potential: makes sequences with a high score more likely: the distribution becomes P(w) exp(potential(w, True))
            over valid sequences. Its values for unfinished sequences guide the particles without a change of the
            distribution: they are divided out one token later.
        ends: see `constrained.sampling.ends`; it holds for the proposal too.
    """

    law: ClassVar = "smc"  # the conditional distribution in the limit of many particles

    particles: int = 16
    proposal: TokenSampler = field(default_factory=AWRS)
    threshold: float = 0.25
    resampling: Literal["multinomial", "residual", "stratified", "systematic"] = "systematic"
    potential: Potential | None = None
    ends: Ends = "model"

    def __post_init__(self) -> None:
        check_ends(self.ends)
        require_positive_ints(particles=self.particles)
        if not isinstance(self.threshold, float | int) or not 0 <= self.threshold <= 1:
            raise InvalidArgument(f"threshold is {self.threshold!r}", action="pass a number from 0 to 1")
        if self.resampling not in RESAMPLINGS:
            raise InvalidArgument(
                f"resampling is {self.resampling!r}", action=f"use one of: {', '.join(RESAMPLINGS)}"
            )
        if not isinstance(self.proposal, TokenSampler) or not self.proposal.weights:
            raise InvalidArgument(
                f"proposal is {self.proposal!r}",
                action="pass a sampler of tokens that weighs them, like AWRS() or Local()",
            )
        check_proposal_ends("SMC", self.certain_ends, self.proposal.certain_ends)

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """All particles, weighted; if one sequence is requested, one particle drawn by weight."""
        seen = SeenMass()
        texts, eves, resampled = self._write(batch, count if count > 1 else self.particles, seen)
        seen.add(texts)
        weights = np.array([text.log_weight for text in texts])
        evidence = log_sum_exp(weights) - math.log(len(weights))
        error = _error(weights, eves, resampled)
        alive = sum(text.finish != "dead" for text in texts)
        begun = len(texts)
        share = np.exp(weights - log_sum_exp(weights)) if evidence > -math.inf else np.ones(1)
        ess = 1.0 / float((share**2).sum())
        if error is not None:
            ess = min(ess, max(1.0, error**-2))
        if count == 1 and evidence > -math.inf:
            index = batch.randomness(begun).pick(weights, np.arange(begun), 0, CHOICES)
            texts = [texts[index]]
            texts[0].log_weight = 0.0
        return SampleBatch(texts[:count], evidence, error, begun, alive, seen.bounds(), ess)

    def _write(self, batch: ParticleBatch, count: int, seen: SeenMass) -> tuple[list[Any], list[int], int]:
        """(finished particles, the first ancestor of each, number of resampling steps); others are added to `seen`."""
        proposal = self.proposal
        if isinstance(proposal, AWRS):
            # Which masks are cached depends on other calls; weights decide which particles live, so texts would, too.
            proposal = replace(proposal, cached=False)
        streams = [batch.randomness(i) for i in range(count)]
        judge = batch.randomness(count)
        texts: list[Any] = batch.start(streams)
        ends = np.zeros(count)  # log-probabilities of the ends that had to come
        scores = [self._score(text) if text.finish else 0.0 for text in texts]
        for text, score in zip(texts, scores, strict=True):
            text.log_weight += score
        eves = list(range(count))
        step = resampled = 0
        while writing := [i for i, text in enumerate(texts) if not text.finish]:
            for i, position in zip(writing, batch.forward([texts[i] for i in writing]), strict=True):
                log_weight, must_end = texts[i].log_weight, texts[i].awaits_end
                texts[i].commit(draw_or_end(proposal.draw_within_limit, position))
                if must_end and log_weight > -np.inf:
                    ends[i], texts[i].log_weight = texts[i].log_weight - log_weight, log_weight
                score = self._score(texts[i])
                texts[i].log_weight += score - scores[i] if texts[i].log_weight > -np.inf else 0.0
                scores[i] = score
                if score == -np.inf:
                    texts[i].log_weight, texts[i].finish = -np.inf, "dead"
            step += 1
            weights = np.array([text.log_weight for text in texts])
            total = log_sum_exp(weights)
            if total == -np.inf or all(text.finish or text.awaits_end for text in texts):
                continue
            share = np.exp(weights - total)
            if 1.0 / float((share**2).sum()) >= self.threshold * count:
                continue
            kept = RESAMPLINGS[self.resampling](share, judge, step)
            seen.add(texts[i] for i in set(range(count)) - set(kept.tolist()))
            texts = [texts[i].copy(randomness) for i, randomness in zip(kept, streams, strict=True)]
            scores, eves, ends = [scores[i] for i in kept], [eves[i] for i in kept], ends[kept]
            for text in texts:
                text.log_weight = total - math.log(count)
            resampled += 1
        for text, end in zip(texts, ends, strict=True):
            text.log_weight += end
        return texts, eves, resampled

    def _score(self, text: Any) -> float:
        if self.potential is None or text.finish == "dead":
            return 0.0
        score = float(self.potential(text.content, text.finish is not None))
        if math.isnan(score) or score == math.inf:
            raise InvalidArgument(
                f"the potential of {text.content!r} is {score}",
                action="return a log-score: a number, or -inf",
            )
        return score


def _error(weights: Scores, eves: Sequence[int], resampled: int) -> float | None:
    """Relative standard error of the mean weight, from one run (Lee and Whiteley 2018).

    Particles of one ancestor count as one: their common part is as uncertain as that ancestor.
    """
    count = len(weights)
    total = log_sum_exp(weights)
    if count < 2 or total == -np.inf:
        return None
    shares = np.bincount(np.asarray(eves), weights=np.exp(weights - total), minlength=count)
    variance = 1.0 - (count / (count - 1)) ** (resampled + 1) * (1.0 - float((shares**2).sum()))
    return math.sqrt(variance) if variance > 0 else None
