"""Local masking: at every position the model's distribution, restricted to what is allowed and renormalised.

Known as (grammar-)constrained decoding. It is fast and its texts are always valid, but their law is
Q(w) = prod of p f / Z and not the model's law given validity, which would be P(w) / P(L): a token is taken without
asking how likely it is that the model continues validly after it. `Output.log_weight` = log P(w) / Q(w) says by how
much, so weighted results are still unbiased. Drawn by the Gumbel-max rule, with temperature T:

    token = argmax over allowed a of  logit_a / T + G(seed, sequence, position, a)

Which token that is can mostly be told without Z and without the mask: of the few tokens with the largest keys, the first
one that is allowed. So a text that nobody weighs takes no mask where one of these is allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from constrained.errors import InvalidArgument, ModelError
from constrained.sampling.base import Draw, ParticleBatch, Position, SampleBatch, TokenSampler
from constrained.sampling.warpers import LogitsWarper
from spec.scores import log_sum_exp

TOP_COUNT = 16
"""Tokens that are asked about before a mask is made."""


@dataclass(frozen=True, slots=True)
class Local(TokenSampler):
    """The sampler ``"local"``.

    Attributes:
        weights: report Z. Without it `log_weight` is not a number, tokens and `logprob` are the same, and masks are
            made only where a truncation needs them or none of the tokens with the largest keys is allowed. A set of
            texts (`draw`) is always weighed.
    """

    weights: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.weights, bool):
            raise InvalidArgument(f"weights is {self.weights!r}", action="pass True or False")

    def top_count(self, warp: LogitsWarper) -> int:
        """A few, where nothing is weighed and nothing truncated."""
        return 0 if self.weights or warp.truncates else TOP_COUNT

    def draw(self, pool: ParticleBatch, count: int) -> SampleBatch:
        """Independent texts; the mean of their weights estimates P(L)."""
        return TokenSampler.draw(replace(self, weights=True), pool, count)

    def propose(self, position: Position) -> Draw:
        """One token of p f / Z, with W = Z (greedy: the most likely allowed token, with the same Z).

        With truncations Z is the mass, under the model after temperature, of the tokens that could be drawn.
        So exp(logprob - log_weight) is the probability of the draw in every case but greedy.

        Raises:
            ModelError: the logits are no distribution, or give no allowed token a probability.
        """
        if self.top_count(position.warper):
            drawn = draw_from_top(position)
            if drawn is not None:
                return drawn
        normaliser = position.normaliser
        ids = position.allowed
        scaled = position.scaled[ids]
        if not len(scaled):
            return Draw(None, -np.inf, -np.inf, position.candidates.checks)
        if position.warper.truncates:
            kept = position.warper.truncation_mask(scaled)
            ids, scaled = ids[kept], scaled[kept]
        mass = log_sum_exp(scaled)
        if mass == -np.inf:
            raise ModelError(
                "the model gives probability 0 to every token that the constraint allows",
                action="check that the model and the tokenizer belong together",
            )
        best = int(np.argmax(scaled)) if position.warper.greedy else position.pick(scaled, ids)
        log_weight = min(0.0, mass - normaliser)
        return Draw(
            token=int(ids[best]),  # of several maxima the first: the lowest id
            logprob=float(scaled[best]) - normaliser,
            log_weight=log_weight if self.weights else math.nan,
            checks=position.candidates.checks,
            bounds=(float(np.exp(log_weight)),) * 2,
        )

    def distribution(self, warp: LogitsWarper) -> str:
        """``greedy``, ``local``, or ``local-truncated`` with top-k, top-p or min-p."""
        if warp.greedy:
            return "greedy"
        return "local-truncated" if warp.truncates else "local"


def draw_from_top(position: Position) -> Draw | None:
    """The token of local masking, found by asking about the tokens with the largest keys; None if they do not tell.

    Raises:
        ModelError: the logits are no distribution.
    """
    position.normaliser  # noqa: B018 - keys mean nothing where the logits are no distribution
    for token in position.gumbel_top_k(TOP_COUNT):
        if position.candidates.permits(token):
            return Draw(token, position.distribution.log_prob(token), math.nan, position.candidates.checks)
    return None
