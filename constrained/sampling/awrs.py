"""Adaptive weighted rejection sampling (Lipkin et al. 2025): a token of p f / Z without the mask.

Tokens are visited in the order of their Gumbel keys, which is sampling without replacement from the model's
distribution; the first token that the constraint permits is the draw. Local masking draws this very token with equal
noise; here it takes 1 + sum over invalid y of p(y) / (p(y) + Z) membership queries on average instead of V.

With a_1, a_2, ... the order of visits, S_j the permitted mass before a_j and R_j the mass from a_j on (what a visit
can still find), e_j = S_j + R_j f(a_j) is an unbiased estimate of Z whatever was visited before it. So after the draw
a_t every e_j with j > t is one, given the draw, and so is the mean of as many of them as one likes, as long as their
number depends on t alone. That is all the weight is: E[W 1{X = x}] = Z P(X = x) = p(x) f(x).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from constrained.errors import InvalidArgument
from constrained.sampling.base import Draw, Position, TokenSampler
from constrained.sampling.ends import Ends, check_ends
from constrained.sampling.local import impossible_end
from constrained.sampling.warpers import LogitsWarper, refuse_truncation
from constrained.spec.scores import log_sum_exp

PATIENCE = 32
"""Visits without a permitted token after which the mask is computed, where a mask is one query."""


@dataclass(frozen=True, slots=True)
class AWRS(TokenSampler):
    """The sampler ``"awrs"``: the local distribution with few membership queries; weights are unbiased estimates.

    Attributes:
        checks: the weight is the mean of the estimates up to this visit, and of at least one estimate. 1 makes one
            query after the draw; more queries reduce the variance of the weight.
        patience: visits without a permitted token before the mask is computed. By default 32 where a mask is one query,
            and no limit with `Candidates.expensive_membership`.
        when_exhausted: ``"mask"``: after `patience` visits the token is drawn by the mask, with W = Z. ``"drop"``: the
            sequence ends with weight 0, and a larger weight of draws at the last visit compensates.
        cached: use the mask, with W = Z, where it is already computed.
        ends: see `constrained.sampling.ends`.
    """

    checks: int = 4
    patience: int | None = None
    when_exhausted: Literal["mask", "drop"] = "mask"
    cached: bool = True
    ends: Ends = "model"

    def __post_init__(self) -> None:
        check_ends(self.ends)
        for name in ("checks", "patience"):
            value = getattr(self, name)
            if value is None and name == "patience":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidArgument(f"{name} is {value!r}", action="pass a whole number >= 1")
        if self.when_exhausted not in ("mask", "drop"):
            raise InvalidArgument(
                f"when_exhausted is {self.when_exhausted!r}", action="pass 'mask' or 'drop'"
            )

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature 0 is allowed; truncations are not: they need the whole mask."""
        return refuse_truncation(LogitsWarper(**settings), "awrs")

    def distribution(self, warper: LogitsWarper) -> str:
        """``local`` (or ``greedy``): the tokens are those of local masking, only the weights are estimates."""
        return "greedy" if warper.greedy else "local"

    def propose(self, position: Position) -> Draw:
        """One token of p f / Z, and a weight that is properly weighted for it.

        Nothing is drawn where no token is both permitted and possible for the model.
        """
        candidates = position.candidates
        if candidates.only_ends or (self.cached and candidates.cached):
            return draw_from_mask(position)
        logs = position.log_probs
        possible = int(np.count_nonzero(logs > -np.inf))
        patience = self.patience or (possible if candidates.expensive_membership else PATIENCE)
        visits = _greedy_order(logs) if position.warper.greedy else position.order(logs, np.arange(len(logs)))
        seen: list[int] = []
        valid: list[bool] = []
        found: int | None = None
        for token in visits:
            seen.append(token)
            valid.append(candidates.permits(token))
            if found is None and valid[-1]:
                found = len(seen)
            if found is None and len(seen) == min(patience, possible):
                break
            if found is not None and len(seen) >= self._last(found, patience):
                break
        if found is None and len(seen) < possible and self.when_exhausted == "mask":
            return draw_from_mask(position)
        if found is None:
            return Draw(
                None, -np.inf, -np.inf, candidates.checks, (0.0, position.distribution.mass_without(seen))
            )
        p = position.distribution.probs[seen]
        f = np.array(valid)
        rest = position.distribution.mass_without(seen)
        known = float((p * f).sum())
        if position.warper.greedy and len(seen) < possible:
            weight = known + rest  # a deterministic order gives no estimate, only this bound
        else:
            weight = estimate_mass(p, f, rest, found, possible)
        if weight <= 0.0:  # underflow: sum the mask in logarithms
            return draw_from_mask(position)
        token = seen[found - 1]
        return Draw(
            token=token,
            logprob=float(logs[token]),
            log_weight=min(0.0, float(np.log(weight))),
            checks=candidates.checks,
            bounds=(known, known + rest),
        )

    def _last(self, found: int, patience: int) -> int:
        """The visit whose estimate is the last one in the weight of a draw at visit `found`."""
        dropping = self.when_exhausted == "drop" and found == patience
        return found if dropping else max(self.checks, found + 1)


def estimate_mass(
    p: NDArray[np.float64], permitted: NDArray[np.bool_], rest: float, found: int, possible: int
) -> float:
    """The weight of a draw: an estimate of the permitted mass that is unbiased given the draw.

    Args:
        p: probabilities of the visited tokens, in the order of visits, float64 [n].
        permitted: which of them are, bool [n].
        rest: the mass that was not visited.
        found: the visit of the draw, from 1.
        possible: number of tokens above probability 0.
    """
    # R_j is summed from what was not visited, never taken as 1 minus what was: that would lose a tiny Z.
    remaining = np.cumsum(np.append(p, rest)[::-1])[::-1][:-1]
    before = np.concatenate(([0.0], np.cumsum(p * permitted)))
    if len(p) == possible:
        return float(before[-1])  # all possible tokens were visited: this is Z
    if len(p) == found:
        return float(remaining[-1])  # the last visit before "drop": the mass not yet visited
    return float(np.mean((before[:-1] + remaining * permitted)[found:]))


def draw_from_mask(position: Position) -> Draw:
    """The token of local masking, by the mask, with W = Z."""
    logs = position.log_probs[position.allowed]
    mass = log_sum_exp(logs)
    if mass == -np.inf and position.candidates.only_ends:
        return impossible_end(position)
    if mass == -np.inf:
        return Draw(None, -np.inf, -np.inf, position.candidates.checks, (0.0, 0.0))
    best = int(np.argmax(logs)) if position.warper.greedy else position.pick(logs, position.allowed)
    return Draw(
        token=int(position.allowed[best]),
        logprob=float(logs[best]),
        log_weight=min(0.0, mass),
        checks=position.candidates.checks,
        bounds=(float(np.exp(mass)),) * 2,
    )


def _greedy_order(logs: Any) -> Iterator[int]:
    order = np.argsort(-logs, kind="stable")
    return (int(token) for token in order if logs[token] > -np.inf)
