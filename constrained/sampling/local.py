"""Local masking: at every position the model's distribution, restricted to what is allowed and renormalised.

Known as (grammar-)constrained decoding. It is fast and its texts are always valid, but their law is
Q(w) = prod of p f / Z and not the model's law given validity, which would be P(w) / P(L): a token is taken without
asking how likely it is that the model continues validly after it. `Output.log_weight` = log P(w) / Q(w) says by how
much, so weighted results are still unbiased. Drawn by the Gumbel-max rule, with temperature T:

    token = argmax over allowed a of  logit_a / T + G(seed, sequence, position, a)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from constrained.errors import ModelError
from constrained.sampling.frame import Draw, Position, TokenSampler
from constrained.sampling.warp import Warp
from spec.scores import log_sum_exp


@dataclass(frozen=True, slots=True)
class Local(TokenSampler):
    """The sampler ``"local"``; it has nothing to configure."""

    def propose(self, position: Position) -> Draw:
        """One token of p f / Z, with W = Z (greedy: the most likely allowed token, with the same Z).

        With truncations Z is the mass, under the model after temperature, of the tokens that could be drawn.
        So exp(logprob - log_weight) is the probability of the draw in every case but greedy.

        Raises:
            ModelError: the logits are no distribution, or give no allowed token a probability.
        """
        normaliser = position.normaliser
        scaled = position.scaled[position.allowed]
        if not len(scaled):
            return Draw(None, -np.inf, -np.inf, position.candidates.checks)
        kept = position.warp.keep(scaled)
        ids, scaled = position.allowed[kept], scaled[kept]
        mass = log_sum_exp(scaled)
        if mass == -np.inf:
            raise ModelError(
                "the model gives probability 0 to every token that the constraint allows",
                action="check that the model and the tokenizer belong together",
            )
        best = int(np.argmax(scaled)) if position.warp.greedy else position.pick(scaled, ids)
        log_weight = min(0.0, mass - normaliser)
        return Draw(
            token=int(ids[best]),  # of several maxima the first: the lowest id
            logprob=float(scaled[best]) - normaliser,
            log_weight=log_weight,
            checks=position.candidates.checks,
            bounds=(float(np.exp(log_weight)),) * 2,
        )

    def law(self, warp: Warp) -> str:
        """``greedy``, ``local``, or ``local-truncated`` with top-k, top-p or min-p."""
        if warp.greedy:
            return "greedy"
        return "local-truncated" if warp.truncates else "local"
