"""Rejection: the model writes unconstrained, and an attempt ends at its first invalid token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from constrained.sampling.attempts import (
    DEFAULT_ATTEMPTS,
    DEFAULT_PARALLEL,
    require_positive_ints,
    sample_until_valid,
)
from constrained.sampling.base import (
    Draw,
    ParticleBatch,
    Position,
    SampleBatch,
    TokenSampler,
    UntruncatedSampler,
    run_particles,
)
from constrained.sampling.ends import Ends, check_ends
from constrained.sampling.warpers import LogitsWarper


@dataclass(frozen=True, slots=True)
class Rejection(UntruncatedSampler):
    """The sampler ``"rejection"``: exact draws of the conditional distribution, at 1 / P(L) attempts each.

    Attributes:
        attempts: greatest number of attempts per requested sequence.
        parallel: greatest number of attempts in one batch.
        ends: see `constrained.sampling.ends`.
    """

    law: ClassVar = "conditional"

    attempts: int = DEFAULT_ATTEMPTS
    parallel: int = DEFAULT_PARALLEL
    ends: Ends = "model"

    def __post_init__(self) -> None:
        check_ends(self.ends)
        require_positive_ints(attempts=self.attempts, parallel=self.parallel)

    def draw(self, batch: ParticleBatch, count: int) -> SampleBatch:
        """Draws independent sequences from the conditional distribution.

        Raises:
            BudgetExhausted: `learned` has an upper limit of P(L) at 95 % confidence.
        """
        batch.reuse_logits()

        def attempt(texts: Sequence[Any]) -> float:
            run_particles(batch, texts, UnmaskedProposal())
            return 0.0

        return sample_until_valid(
            batch,
            count,
            attempts=self.attempts,
            parallel=self.parallel,
            randomness=batch.randomness,
            write=attempt,
            mass=lambda: 0.0,
            certain=False,
        )


class UnmaskedProposal(TokenSampler):
    """A token of the model's own distribution p; W = 1 if it is permitted, otherwise nothing is drawn and W = 0."""

    def distribution(self, warper: LogitsWarper) -> str:
        """The distribution of an accepted sequence: ``conditional``."""
        return "conditional"

    def propose(self, position: Position) -> Draw:
        """Draws one token, with one membership query."""
        logs = position.log_probs
        token = position.pick(logs, np.arange(len(logs)))
        if not position.candidates.permits(token):
            return Draw(None, -np.inf, -np.inf, position.candidates.checks)
        return Draw(token, float(logs[token]), 0.0, position.candidates.checks)
