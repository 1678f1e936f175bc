"""Markov chain Monte Carlo over valid texts (Gonzalez et al. 2025): cut a text, write its end anew, take it or leave it.

The state is a valid text x. A place i of it is chosen with probability v(x_1..i) / N_x, where N_x is the sum of v over all
places, and the text from there on is written by the proposal. Every way from x to y and back goes through their common
beginnings, where the two texts have the same v; so the ratio of Metropolis and Hastings is

    alpha(x, y) = min(1, N_x omega(y) / (N_y omega(x))),    omega(x) = product of W over the positions of x.

With weights that are estimates omega belongs to the state and is never estimated again: the chain stays exact
(Andrieu and Roberts 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from constrained.errors import InvalidArgument
from constrained.sampling.attempts import require_positive_ints
from constrained.sampling.awrs import AWRS
from constrained.sampling.base import (
    ParticleBatch,
    Position,
    SampleBatch,
    Sampler,
    TokenSampler,
    estimate_evidence,
)
from constrained.sampling.local import Local
from constrained.sampling.randomness import CUTS, MOVES, Randomness, bernoulli
from constrained.sampling.warpers import LogitsWarper, untruncated_warper


@dataclass(slots=True)
class ChainState:
    """Where a chain is.

    Attributes:
        text: finished.
        values: v of each place.
        cut: where it was begun.
    """

    text: Any
    values: list[float] = field(default_factory=list)
    cut: int = 0

    @property
    def omega(self) -> float:
        """Log of the product of the weights, -inf for a text that was given up."""
        return float(sum(draw.log_weight for draw in self.text.draws))


@dataclass(frozen=True, slots=True)
class MCMC(Sampler):
    """The sampler ``"mcmc"``: valid texts whose law comes closer to the conditional one with every step.

    Attributes:
        steps: how many moves are proposed.
        cut: where a text is cut. ``"restart"``: at its beginning; ``"uniform"``: anywhere; ``"priority"``: where the
            model was uncertain, v = entropy (nats) + floor.
        floor: what keeps certain places possible under ``"priority"``.
        proposal: writes the texts.
    """

    steps: int = 10
    cut: Literal["restart", "uniform", "priority"] = "restart"
    floor: float = 0.1
    proposal: TokenSampler = field(default_factory=Local)

    def __post_init__(self) -> None:
        require_positive_ints(steps=self.steps)
        if self.cut not in ("restart", "uniform", "priority"):
            raise InvalidArgument(f"cut is {self.cut!r}", action="use one of: restart, uniform, priority")
        if not isinstance(self.floor, float | int) or not 0 < self.floor < math.inf:
            raise InvalidArgument(f"floor is {self.floor!r}", action="pass a number above 0")
        if not isinstance(self.proposal, TokenSampler) or not self.proposal.weights:
            raise InvalidArgument(
                f"proposal is {self.proposal!r}",
                action="pass a sampler of tokens that weighs them, like AWRS() or Local()",
            )

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature 1 where none is given; no truncation."""
        return untruncated_warper(settings, "mcmc")

    def distribution(self, warp: LogitsWarper) -> str:
        """Always ``mcmc``: the conditional law in the limit of many steps."""
        return "mcmc"

    def draw(self, pool: ParticleBatch, count: int) -> SampleBatch:
        """The last states of as many chains, which run side by side and know nothing of each other."""
        states = [ChainState(text) for text in pool.start([pool.randomness(i) for i in range(count)])]
        self._write(pool, states)
        whole = [state.omega for state in states]
        moved = 0
        for step in range(1, self.steps + 1):
            chances = [pool.randomness(step * count + i) for i in range(count)]
            states, proposed, taken = self.move(pool, states, chances)
            whole += [state.omega for state in proposed if state.cut == 0]
            moved += taken
        for state in states:
            state.text.log_weight = 0.0 if state.omega > -np.inf else -np.inf
        evidence, error = estimate_evidence(whole)
        return SampleBatch(
            [state.text for state in states], evidence, error, count * (self.steps + 1), count + moved
        )

    def move(
        self, pool: ParticleBatch, states: Sequence[ChainState], chances: Sequence[Randomness]
    ) -> tuple[list[ChainState], list[ChainState], int]:
        """One step of each chain.

        Returns:
            (the states after it, those that were proposed, how many of these were taken).
        """
        proposed = [self._cut(state, chance) for state, chance in zip(states, chances, strict=True)]
        # Texts with a beginning and texts without one are read apart.
        for fresh in (True, False):
            group = [i for i, state in enumerate(proposed) if (state.cut == 0) == fresh]
            if group:
                draws = [states[i].text.draws[: proposed[i].cut] for i in group]
                for i, text in zip(group, pool.start([chances[i] for i in group], draws), strict=True):
                    proposed[i].text = text
                self._write(pool, [proposed[i] for i in group])
        after = [
            new if bernoulli(chance, acceptance_probability(old, new), 0, MOVES) else old
            for old, new, chance in zip(states, proposed, chances, strict=True)
        ]
        return after, proposed, sum(new is state for new, state in zip(proposed, after, strict=True))

    def _cut(self, state: ChainState, chance: Randomness) -> ChainState:
        """A state to be written from a place of this one; from the beginning, where this one was given up."""
        if self.cut == "restart" or state.text.finish == "dead" or not state.values:
            return ChainState(None)
        cut = chance.pick(np.log(state.values), np.arange(len(state.values)), 0, CUTS)
        return ChainState(None, state.values[:cut], cut)

    def _write(self, pool: ParticleBatch, states: Sequence[ChainState]) -> None:
        proposal = self.proposal
        if isinstance(proposal, AWRS):
            # Rows that become known on the way would change the law of the estimates while the chain runs.
            proposal = replace(proposal, cached=False)
        while writing := [state for state in states if not state.text.finish]:
            for state, position in zip(writing, pool.forward([state.text for state in writing]), strict=True):
                state.values.append(self._value(position, len(state.values)))
                state.text.commit(proposal.propose(position))

    def _value(self, position: Position, place: int) -> float:
        if self.cut == "restart":
            return float(place == 0)
        if self.cut == "uniform":
            return 1.0
        logs, p = position.distribution.log_probs, position.distribution.probs
        return self.floor - float((p[p > 0] * logs[p > 0]).sum())


def acceptance_probability(old: ChainState, new: ChainState) -> float:
    """The probability to move from one state to another."""
    if new.omega == -np.inf:
        return 0.0
    if old.omega == -np.inf:
        return 1.0
    log = math.log(sum(old.values) or 1.0) - math.log(sum(new.values) or 1.0) + new.omega - old.omega
    return math.exp(min(0.0, log))
