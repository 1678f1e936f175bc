"""Samplers that try until a text is valid: rounds of attempts, a budget, and what is known when it is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.sampling.base import ParticleBatch, SampleBatch

DEFAULT_ATTEMPTS = 1000
"""Attempts that each wanted text may take, where nothing else is said."""

DEFAULT_PARALLEL = 8
"""Attempts that are made side by side at most, where nothing else is said."""


@dataclass(slots=True)
class AttemptTally:
    """What attempts came to.

    Attributes:
        target_count: texts that are wanted.
        accepted: valid ones, in the order in which they were begun.
        estimates: for each attempt an unbiased estimate of P(L), given those before it.
        lower: mass of the distinct texts that were found.
        upper: a bound of P(L).
    """

    target_count: int
    accepted: list[Any] = field(default_factory=list)
    estimates: list[float] = field(default_factory=list)
    lower: float = 0.0
    upper: float = 1.0
    seen: set[bytes] = field(default_factory=set)

    @property
    def attempts(self) -> int:
        """How many were made."""
        return len(self.estimates)

    def add(self, texts: Sequence[Any], share: float) -> None:
        """Counts a round.

        Args:
            texts: in the order in which they were begun.
            share: what an accepted text says P(L) is: 1, or the mass out of which attempts were made.
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
        """The first texts that were wanted: in the order in which they were begun, not in that of their ends.

        To take those that end first would prefer short ones.
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
        """The error for a spent budget.

        Args:
            certain: the upper bound is one; otherwise it is only what the attempts make likely.
            forwards: rows that the model has read.
        """
        upper = self.upper if certain else self._likely_upper()
        bound = f"at most {upper:.3g}" + ("" if certain else " (with 95 % confidence)")
        return BudgetExhausted(
            f"{len(self.accepted)} of {self.target_count} texts after {self.attempts} attempts: "
            f"the model's text is valid with probability {bound}",
            action="raise the budget (attempts=...), ask for the wanted form in the prompt, or use sampler='smc'",
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
        """Clopper and Pearson's upper limit at 95 %, by bisection of the binomial law's tail."""
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
    pool: ParticleBatch,
    count: int,
    *,
    attempts: int,
    parallel: int,
    write: Callable[[Sequence[Any]], None],
    mass: Callable[[], float],
    certain: bool,
) -> SampleBatch:
    """Makes attempts until enough texts are valid.

    How many are made side by side depends on what earlier rounds came to, and on nothing within the round: so the
    accepted texts, in the order in which they were begun, are independent.

    Args:
        pool: writes texts.
        count: how many valid ones are wanted.
        attempts: how many may be made for each of them.
        parallel: how many may be made side by side.
        write: writes a round of texts to their ends.
        mass: a bound of P(L) before a round, out of which its attempts are made.
        certain: whether `mass` is a certain bound that gets tighter.

    Raises:
        BudgetExhausted: the attempts were spent, or no text is possible.
    """
    tally = AttemptTally(count)
    while len(tally.accepted) < count:
        share = mass()
        left = attempts * count - tally.attempts
        if left <= 0 or share <= 0.0:
            tally.upper = share
            raise tally.budget_error(certain, pool.forwards)
        rate = (len(tally.accepted) + 1) / (tally.attempts + 1)
        wanted = math.ceil((count - len(tally.accepted)) / rate)
        width = min(parallel, left, max(1, wanted))
        texts = pool.start([pool.randomness(tally.attempts + i) for i in range(width)])
        write(texts)
        tally.add(texts, share)
    tally.upper = mass()
    return tally.sample()


def require_positive_ints(**numbers: Any) -> None:
    """Refuses numbers that are no whole ones >= 1.

    Raises:
        InvalidArgument: the first of them.
    """
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidArgument(f"{name} is {value!r}", action="pass a whole number >= 1")
