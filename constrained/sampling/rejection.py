"""Rejection: the model writes freely, and what is not valid is thrown away at its first wrong token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from constrained.sampling.attempts import ATTEMPTS, PARALLEL, check_numbers, until_valid
from constrained.sampling.base import Draw, Pool, Position, Sample, Sampler, TokenSampler, write
from constrained.sampling.warpers import Warp, sampling_warp


@dataclass(frozen=True, slots=True)
class Rejection(Sampler):
    """The sampler ``"rejection"``: exact draws of the conditional law, at 1 / P(L) attempts each.

    Attributes:
        attempts: how many may be made for each wanted text.
        parallel: how many are made side by side at most.
    """

    attempts: int = ATTEMPTS
    parallel: int = PARALLEL

    def __post_init__(self) -> None:
        check_numbers(attempts=self.attempts, parallel=self.parallel)

    def warp(self, **settings: Any) -> Warp:
        """Temperature 1 where none is given; no truncation."""
        return sampling_warp(settings, "rejection")

    def law(self, warp: Warp) -> str:
        """Always ``conditional``."""
        return "conditional"

    def draw(self, pool: Pool, count: int) -> Sample:
        """Texts of the conditional law, independent of each other.

        Raises:
            BudgetExhausted: `learned` has an upper limit of P(L) at 95 % confidence.
        """

        def attempt(texts: Sequence[Any]) -> None:
            write(pool, texts, Free())

        return until_valid(
            pool,
            count,
            attempts=self.attempts,
            parallel=self.parallel,
            write=attempt,
            mass=lambda: 1.0,
            certain=False,
        )


class Free(TokenSampler):
    """A token of the model's own law p; W = 1 if it is permitted, otherwise nothing is drawn and W = 0."""

    def law(self, warp: Warp) -> str:
        """That of an accepted text."""
        return "conditional"

    def propose(self, position: Position) -> Draw:
        """One token, and one question about it."""
        logs = position.logs
        token = position.pick(logs, np.arange(len(logs)))
        if not position.candidates.permits(token):
            return Draw(None, -np.inf, -np.inf, position.candidates.checks)
        return Draw(token, float(logs[token]), 0.0, position.candidates.checks)
