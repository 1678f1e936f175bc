"""Rejection: the model writes freely, and what is not valid is thrown away at its first wrong token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    Sampler,
    TokenSampler,
    run_particles,
)
from constrained.sampling.warpers import LogitsWarper, untruncated_warper


@dataclass(frozen=True, slots=True)
class Rejection(Sampler):
    """The sampler ``"rejection"``: exact draws of the conditional law, at 1 / P(L) attempts each.

    Attributes:
        attempts: how many may be made for each wanted text.
        parallel: how many are made side by side at most.
    """

    attempts: int = DEFAULT_ATTEMPTS
    parallel: int = DEFAULT_PARALLEL

    def __post_init__(self) -> None:
        require_positive_ints(attempts=self.attempts, parallel=self.parallel)

    def warper(self, **settings: Any) -> LogitsWarper:
        """Temperature 1 where none is given; no truncation."""
        return untruncated_warper(settings, "rejection")

    def distribution(self, warp: LogitsWarper) -> str:
        """Always ``conditional``."""
        return "conditional"

    def draw(self, pool: ParticleBatch, count: int) -> SampleBatch:
        """Texts of the conditional law, independent of each other.

        Raises:
            BudgetExhausted: `learned` has an upper limit of P(L) at 95 % confidence.
        """

        def attempt(texts: Sequence[Any]) -> None:
            run_particles(pool, texts, UnmaskedProposal())

        return sample_until_valid(
            pool,
            count,
            attempts=self.attempts,
            parallel=self.parallel,
            write=attempt,
            mass=lambda: 1.0,
            certain=False,
        )


class UnmaskedProposal(TokenSampler):
    """A token of the model's own law p; W = 1 if it is permitted, otherwise nothing is drawn and W = 0."""

    def distribution(self, warp: LogitsWarper) -> str:
        """That of an accepted text."""
        return "conditional"

    def propose(self, position: Position) -> Draw:
        """One token, and one question about it."""
        logs = position.log_probs
        token = position.pick(logs, np.arange(len(logs)))
        if not position.candidates.permits(token):
            return Draw(None, -np.inf, -np.inf, position.candidates.checks)
        return Draw(token, float(logs[token]), 0.0, position.candidates.checks)
