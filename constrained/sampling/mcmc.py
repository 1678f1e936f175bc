"""Markov chain Monte Carlo over valid sequences (Gonzalez et al. 2025): cut, complete again, accept or reject.

The state is a valid sequence x. A position i of it is chosen with probability v(x_1..i) / N_x, where N_x is the sum of
v over all positions, and the proposal completes the sequence from there. Every move between x and y passes through
their common prefixes, where v is equal for both; so the Metropolis-Hastings ratio is

    alpha(x, y) = min(1, N_x omega(y) / (N_y omega(x))),    omega(x) = product of W over the positions of x.

With weights that are estimates omega belongs to the state and is never estimated again: the chain stays exact
(Andrieu and Roberts 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from constrained.errors import InvalidArgument
from constrained.sampling.attempts import require_positive_ints
from constrained.sampling.awrs import AWRS
from constrained.sampling.base import (
    ChainMoves,
    ParticleBatch,
    Position,
    SampleBatch,
    TokenSampler,
    UntruncatedSampler,
    draw_or_end,
    estimate_evidence,
)
from constrained.sampling.ends import Ends, check_ends, check_proposal_ends
from constrained.sampling.local import Local
from constrained.sampling.randomness import CUTS, MOVES, Randomness, bernoulli
from constrained.sampling.seen_mass import SeenMass


@dataclass(slots=True)
class ChainState:
    """The state of a chain.

    Attributes:
        text: the finished sequence.
        values: v of each position.
        cut: the position from which it was completed.
    """

    text: Any
    values: list[float] = field(default_factory=list)
    cut: int = 0

    @property
    def omega(self) -> float:
        """Log of the product of the weights, -inf for a sequence that ended dead."""
        return float(sum(draw.log_weight for draw in self.text.draws))


@dataclass(frozen=True, slots=True)
class MCMC(UntruncatedSampler):
    """The sampler ``"mcmc"``: the distribution converges to the conditional one with the number of steps.

    Attributes:
        steps: number of proposed moves.
        cut: where a sequence is cut. ``"restart"``: at its start; ``"uniform"``: anywhere; ``"priority"``: where
            the model was uncertain, v = entropy (nats) + floor.
        floor: minimum of v under ``"priority"``, so that every position can be chosen.
        proposal: completes the sequences.
        ends: see `constrained.sampling.ends`; it holds for the proposal too.
    """

    law: ClassVar = "mcmc"  # the conditional distribution in the limit of many steps

    steps: int = 10
    cut: Literal["restart", "uniform", "priority"] = "restart"
    floor: float = 0.1
    proposal: TokenSampler = field(default_factory=Local)
    ends: Ends = "model"

    def __post_init__(self) -> None:
        check_ends(self.ends)
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
        check_proposal_ends("MCMC", self.certain_ends, self.proposal.certain_ends)

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """The last states of `count` independent chains, which run in one batch."""
        batch.reuse_logits()
        states = [ChainState(text) for text in batch.start([batch.randomness(i) for i in range(count)])]
        self._write(batch, states)
        whole = [state.omega for state in states]
        seen = SeenMass()
        seen.add(state.text for state in states)
        paths = [{tuple(state.text.tokens)} for state in states]
        taken = 0
        for step in range(1, self.steps + 1):
            streams = [batch.randomness(step * count + i) for i in range(count)]
            states, proposed, accepted = self.move(batch, states, streams)
            seen.add(state.text for state in proposed)
            for path, state in zip(paths, states, strict=True):
                path.add(tuple(state.text.tokens))
            if self.cut == "restart":  # elsewhere, which proposals begin at the root depends on the states
                whole += [state.omega for state in proposed]
            taken += accepted
        for state in states:
            state.text.log_weight = 0.0 if state.omega > -np.inf else -np.inf
        evidence, error = estimate_evidence(whole)
        return SampleBatch(
            [state.text for state in states],
            evidence,
            error,
            attempts=count * (self.steps + 1),
            accepted=count + taken,
            bounds=seen.bounds(),
            moves=ChainMoves(taken / (count * self.steps), sum(len(path) == 1 for path in paths) / count),
        )

    def move(
        self, batch: ParticleBatch, states: Sequence[ChainState], streams: Sequence[Randomness]
    ) -> tuple[list[ChainState], list[ChainState], int]:
        """One step of each chain.

        Returns:
            (the states after the step, the proposed states, how many of these were accepted).
        """
        proposed = [self._cut(state, randomness) for state, randomness in zip(states, streams, strict=True)]
        # A forward pass reads either whole prompts or prefixes after a prompt, not both.
        for fresh in (True, False):
            group = [i for i, state in enumerate(proposed) if (state.cut == 0) == fresh]
            if group:
                draws = [states[i].text.draws[: proposed[i].cut] for i in group]
                for i, text in zip(group, batch.start([streams[i] for i in group], draws), strict=True):
                    proposed[i].text = text
                self._write(batch, [proposed[i] for i in group])
        after = [
            new if bernoulli(randomness, acceptance_probability(old, new), 0, MOVES) else old
            for old, new, randomness in zip(states, proposed, streams, strict=True)
        ]
        return after, proposed, sum(new is state for new, state in zip(proposed, after, strict=True))

    def _cut(self, state: ChainState, randomness: Randomness) -> ChainState:
        """A state to be completed from a position of this one; from the start if this one ended dead."""
        if self.cut == "restart" or state.text.finish == "dead" or not any(state.values):
            return ChainState(None)
        with np.errstate(divide="ignore"):
            values = np.log(state.values)
        cut = randomness.pick(values, np.arange(len(state.values)), 0, CUTS)
        return ChainState(None, state.values[:cut], cut)

    def _write(self, batch: ParticleBatch, states: Sequence[ChainState]) -> None:
        proposal = self.proposal
        if isinstance(proposal, AWRS):
            # Masks that become cached on the way would change the distribution of the estimates while the chain runs.
            proposal = replace(proposal, cached=False)
        while writing := [state for state in states if not state.text.finish]:
            for state, position in zip(
                writing, batch.forward([state.text for state in writing]), strict=True
            ):
                state.values.append(self._value(position, len(state.values)))
                state.text.commit(draw_or_end(proposal.draw_within_limit, position))

    def _value(self, position: Position, place: int) -> float:
        if self.cut == "restart":
            return float(place == 0)
        if position.candidates.only_ends:
            return 0.0  # nothing but the same sequence could be proposed from here
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
