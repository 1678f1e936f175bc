"""Attempts until enough sequences are valid: batches, a budget, and bounds of P(L) when it is exhausted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.sampling.base import ParticleBatch, SampleBatch

DEFAULT_ATTEMPTS = 1000
"""Default for the greatest number of attempts per requested sequence."""

DEFAULT_PARALLEL = 8
"""Default for the greatest number of attempts in one batch."""


@dataclass(slots=True)
class AttemptTally:
    """The results of attempts.

    Attributes:
        target_count: number of requested sequences.
        accepted: valid sequences, in the order in which they were started.
        estimates: for each attempt an unbiased estimate of P(L), given those before it.
        lower: probability mass of the distinct accepted sequences.
        upper: an upper bound of P(L).
    """

    target_count: int
    accepted: list[Any] = field(default_factory=list)
    estimates: list[float] = field(default_factory=list)
    lower: float = 0.0
    upper: float = 1.0
    seen: set[bytes] = field(default_factory=set)

    @property
    def attempts(self) -> int:
        """Number of attempts so far."""
        return len(self.estimates)

    def add(self, texts: Sequence[Any], share: float) -> None:
        """Counts the attempts of one batch.

        Args:
            texts: the sequences, in the order in which they were started.
            share: the estimate of P(L) by an accepted sequence: 1, or the mass that attempts are drawn from.
        """
        for text in texts:
            valid = text.finish != "dead"
            self.estimates.append(share if valid else 0.0)
            if valid:
                self.accepted.append(text)
                path = repr([draw.token for draw in text.draws]).encode()
                if path not in self.seen:
                    self.seen.add(path)
                    self.lower += math.exp(text.logprob)

    def sample(self) -> SampleBatch:
        """The first `target_count` accepted sequences in the order in which they were started.

        The order in which they ended would prefer short sequences.
        """
        estimates = np.array(self.estimates)
        mean = float(estimates.mean())
        error = None
        if len(estimates) > 1 and mean > 0:
            error = float(estimates.std(ddof=1) / math.sqrt(len(estimates)) / mean)
        return SampleBatch(
            self.accepted[: self.target_count],
            math.log(mean) if mean > 0 else -math.inf,
            error,
            attempts=self.attempts,
            accepted=len(self.accepted),
            bounds=(min(self.lower, self.upper), self.upper),
        )

    def budget_error(self, certain: bool, forwards: int) -> BudgetExhausted:
        """The error for an exhausted budget.

        Args:
            certain: the upper bound is guaranteed; otherwise it is a confidence limit.
            forwards: rows that the model has read.
        """
        upper = self.upper if certain else self._likely_upper()
        bound = f"at most {upper:.3g}" + ("" if certain else " (with 95 % confidence)")
        return BudgetExhausted(
            f"{len(self.accepted)} of {self.target_count} completions after {self.attempts} attempts: "
            f"the model's completion is valid with probability {bound}",
            action="raise the budget (attempts=...), describe the required form in the prompt, or use sampler='smc'",
            diagnostics={
                "attempts": self.attempts,
                "accepted": len(self.accepted),
                "forwards": forwards,
                "lower": self.lower,
                "upper": upper,
                "certain": certain,
                "texts": tuple(text.content for text in self.accepted),
            },
        )

    def _likely_upper(self) -> float:
        """Clopper and Pearson's upper limit at 95 %, by bisection of the binomial distribution's tail."""
        n, k = self.attempts, len(self.accepted)
        if k == n:
            return 1.0
        low, high = k / n, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            if middle >= 1.0:
                break
            tail = math.fsum(math.exp(_log_binomial(n, i, middle)) for i in range(k + 1))
            low, high = (middle, high) if tail > 0.05 else (low, middle)
        return high


def _log_binomial(n: int, k: int, p: float) -> float:
    """Log-probability of k successes out of n."""
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return ways + (k * math.log(p) if k else 0.0) + (n - k) * math.log1p(-p)


def sample_until_valid(
    batch: ParticleBatch,
    count: int,
    *,
    attempts: int,
    parallel: int,
    write: Callable[[Sequence[Any]], None],
    mass: Callable[[], float],
    certain: bool,
) -> SampleBatch:
    """Makes attempts until enough sequences are valid.

    The size of a batch depends on earlier batches only, so the accepted sequences, in the order in which they were
    started, are independent.

    Args:
        batch: runs the model.
        count: number of requested sequences.
        attempts: greatest number of attempts per requested sequence.
        parallel: greatest number of attempts in one batch.
        write: completes the sequences of one batch.
        mass: the upper bound of P(L) before a batch: the mass that its attempts are drawn from.
        certain: whether `mass` is a guaranteed bound that tightens.

    Raises:
        BudgetExhausted: the attempts are exhausted, or no valid sequence is possible.
    """
    tally = AttemptTally(count)
    while len(tally.accepted) < count:
        share = mass()
        left = attempts * count - tally.attempts
        if left <= 0 or share <= 0.0:
            tally.upper = share
            raise tally.budget_error(certain, batch.forwards)
        rate = (len(tally.accepted) + 1) / (tally.attempts + 1)
        wanted = math.ceil((count - len(tally.accepted)) / rate)
        width = min(parallel, left, max(1, wanted))
        texts = batch.start([batch.randomness(tally.attempts + i) for i in range(width)])
        write(texts)
        tally.add(texts, share)
    tally.upper = mass()
    return tally.sample()


def require_positive_ints(**numbers: Any) -> None:
    """Checks that numbers are integers >= 1.

    Raises:
        InvalidArgument: one is not.
    """
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidArgument(f"{name} is {value!r}", action="pass a whole number >= 1")
