"""Local masking: at every position the model's distribution, restricted to what is allowed and renormalised.

Known as (grammar-)constrained decoding. It is fast and its sequences are always valid, but their distribution is
Q(w) = prod of p f / Z, not the model's distribution given validity, P(w) / P(L): a token is drawn without
regard to the probability that the model continues validly after it. `Output.log_weight` = log P(w) / Q(w), so weighted
results are unbiased. Tokens are drawn by the Gumbel-max rule, with temperature T:

    token = argmax over allowed a of  logit_a / T + G(seed, sequence, position, a)

This token is usually the first allowed one among the few tokens with the largest keys, which needs neither Z nor the
mask. So without weights no mask is computed where one of these is allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from constrained.automaton.forced_tokens import Spelling, is_canonical
from constrained.errors import InvalidArgument
from constrained.sampling.base import (
    Draw,
    NoPossibleToken,
    ParticleBatch,
    Position,
    SampleBatch,
    TokenSampler,
)
from constrained.sampling.ends import Ends, check_ends
from constrained.sampling.warpers import LogitsWarper
from constrained.spec.scores import log_sum_exp

TOP_COUNT = 16
"""Tokens that are queried before a mask is computed."""


@dataclass(frozen=True, slots=True)
class Local(TokenSampler):
    """The sampler ``"local"``.

    Attributes:
        weights: report Z. Without it `log_weight` is NaN, tokens do not change, and masks are computed
            only where a truncation needs them or none of the tokens with the largest keys is allowed; text that is forced
            (see `spelling`) costs no forward pass of its own, and counts 0 in `logprob`. A set of sequences (`draw`) always has weights.
        ends: see `constrained.sampling.ends`; by default ``"model"`` with weights, and ``"certain"`` without, so that no
            forward pass is spent on an end that nothing competes with.
        spelling: ``"canonical"``: text that is forced (names of members, the rest of an enumerated value, tags) has the tokens
            that the tokenizer writes, and weights are those of such sequences; ``"any"``: every way to spell it is allowed. A
            set of sequences (`draw`) has all spellings.
        slots: the values of closed slots in JSON (enumerations, booleans, bounded integers) are drawn as wholes, by their probability
            given what stands before them, as `constrained.sampling.exact` draws a whole text, where the model reads trees; otherwise token by token. Not
            those of a set of sequences.
    """

    weights: bool = True
    ends: Ends | None = None
    spelling: Spelling = "canonical"
    slots: bool = False

    def __post_init__(self) -> None:
        for name in ("weights", "slots"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidArgument(f"{name} is {getattr(self, name)!r}", action="pass True or False")
        check_ends(self.ends, optional=True)
        is_canonical(self.spelling)

    @property
    def certain_ends(self) -> bool:
        """See `Sampler.certain_ends`."""
        return self.ends == "certain" or (self.ends is None and not self.weights)

    @property
    def canonical(self) -> bool:
        """See `Sampler.canonical`."""
        return is_canonical(self.spelling)

    def weighted(self) -> Local:
        """This sampler with weights, which are of all spellings."""
        return replace(self, weights=True, spelling="any", slots=False)

    def top_count(self, warper: LogitsWarper) -> int:
        """`TOP_COUNT` without weights, truncations, biases and penalties."""
        return 0 if self.weights or warper.truncates or warper.adjusts else TOP_COUNT

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Independent sequences; the mean of their weights estimates P(L)."""
        return TokenSampler.draw(self.weighted(), batch, count)

    def propose(self, position: Position) -> Draw:
        """One token of p f / Z, with W = Z (greedy: the most likely allowed token, with the same Z).

        With truncations Z is the mass, under the model after temperature, of the tokens that could be drawn, without bounds.
        So exp(logprob - log_weight) is the probability of the draw in every case but greedy. Where only ends can
        follow there is nothing to truncate, and an end that the model rules out is drawn with weight 0.

        Raises:
            ModelError: the logits are not a distribution, or give no allowed token a probability.
        """
        if self.top_count(position.warper):
            drawn = draw_from_top(position)
            if drawn is not None:
                return drawn
        normaliser = position.normaliser
        ids = position.allowed
        scaled = position.distribution.scaled_of(ids)
        if not len(scaled):
            return Draw(None, -np.inf, -np.inf, position.candidates.checks, (0.0, 0.0))
        if position.warper.truncates and not position.candidates.only_ends:
            kept = position.warper.truncation_mask(scaled)
            ids, scaled = ids[kept], scaled[kept]
        mass = log_sum_exp(scaled)
        if mass == -np.inf and position.candidates.only_ends:
            return impossible_end(position)
        if mass == -np.inf:
            raise NoPossibleToken(
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
            bounds=None if position.warper.truncates else (float(np.exp(log_weight)),) * 2,
        )

    def distribution(self, warper: LogitsWarper) -> str:
        """``greedy``, ``local``, or ``local-truncated`` with top-k, top-p or min-p."""
        if warper.greedy:
            return "greedy"
        return "local-truncated" if warper.truncates else "local"


def impossible_end(position: Position) -> Draw:
    """The end where only ends can follow and the model rules them out: the completion is valid, its weight is 0."""
    return Draw(int(position.allowed[0]), -np.inf, -np.inf, position.candidates.checks, (0.0, 0.0))


def draw_from_top(position: Position) -> Draw | None:
    """The token of local masking among the tokens with the largest keys; None if none of these is allowed.

    Raises:
        ModelError: the logits are not a distribution.
    """
    position.normaliser  # noqa: B018 - keys mean nothing where the logits are not a distribution
    for token in position.gumbel_top_k(TOP_COUNT):
        if position.candidates.permits(token):
            return Draw(token, position.distribution.log_prob(token), math.nan, position.candidates.checks)
    return None
