"""Attempts until enough sequences are valid: batches, a budget, and bounds of P(L) when it is exhausted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.sampling.base import ParticleBatch, SampleBatch
from constrained.sampling.randomness import Randomness
from constrained.sampling.trie import above, below, log_total

DEFAULT_ATTEMPTS = 1000
"""Default for the greatest number of attempts per requested sequence."""

DEFAULT_PARALLEL = 8
"""Default for the greatest number of attempts in one batch."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt.

    Attributes:
        share: log of the mass that it was drawn from: it draws w with probability P(w) over this mass.
        lower: log of the mass of the valid sequences that were known before it.
        valid: it ended in a valid sequence.
        new: in one that was not known before it.
    """

    share: float
    lower: float
    valid: bool
    new: bool


@dataclass(slots=True)
class AttemptTally:
    """The results of attempts.

    Attributes:
        target_count: number of requested sequences.
        accepted: valid sequences, in the order in which they were started.
        made: all attempts.
        lower: log of the probability mass of the distinct accepted sequences.
        upper: log of an upper bound of P(L).
    """

    target_count: int
    accepted: list[Any] = field(default_factory=list)
    made: list[Attempt] = field(default_factory=list)
    lower: float = -math.inf
    upper: float = 0.0
    seen: set[bytes] = field(default_factory=set)

    @property
    def attempts(self) -> int:
        """Number of attempts so far."""
        return len(self.made)

    def add(self, texts: Sequence[Any], share: float) -> None:
        """Counts the attempts of one batch.

        Args:
            texts: the sequences, in the order in which they were started.
            share: log of the mass that attempts are drawn from.
        """
        known, lower = set(self.seen), self.lower
        for text in texts:
            valid = text.finish != "dead"
            path = repr(text.tokens).encode()  # draws differ in their ends too
            self.made.append(Attempt(share, lower, valid, valid and path not in known))
            if valid:
                self.accepted.append(text)
                if path not in self.seen:
                    self.seen.add(path)
                    self.lower = log_total([self.lower, text.logprob])

    def sample(self) -> SampleBatch:
        """The first `target_count` accepted sequences in the order in which they were started.

        The order in which they ended would prefer short sequences.
        """
        # Of one sequence nothing but the bounds: the only success ended the call, and the estimate was 3 times too large.
        evidence, error = self.evidence() if self.target_count > 1 else (None, None)
        upper = above(self.upper)
        return SampleBatch(
            self.accepted[: self.target_count],
            evidence,
            error,
            attempts=self.attempts,
            accepted=len(self.accepted),
            bounds=(min(below(self.lower), upper), upper),
        )

    def evidence(self) -> tuple[float, float]:
        """(log of the estimate of P(L), its relative standard error).

        Attempt t is drawn from the mass theta_t, when sequences of the mass l_t were known. So x_t = l_t + theta_t
        [it found a new valid sequence] is an unbiased estimate of P(L), given all attempts before it. Its variance is
        about theta_t (P(L) - l_t): the estimates are averaged with weights 1 / theta_t. (Equal weights would leave the
        mean to the first attempts, whose rare successes are hardly ever seen.) The last success, which ends the call,
        counts half, because a call stops after successes and not after failures. What is left is a relative bias of
        about one over the number of accepted sequences, less than the error. The estimate never leaves the
        certain bounds.
        """
        weight = np.ones(len(self.made))
        weight[max(i for i, one in enumerate(self.made) if one.valid)] = 0.5
        share = np.array([one.share for one in self.made])
        new = np.array([one.new for one in self.made])
        known = np.exp(np.array([one.lower for one in self.made]) - share)
        least = float(share.min())
        total = float((weight * np.exp(least - share)).sum())
        mean = least + math.log(float((weight * (known + new)).sum()) / total)
        mean = max(min(mean, self.upper), min(self.lower, self.upper))
        # The chance of a new sequence in each attempt, if the estimate were right; and half an event that was not seen.
        chance = np.clip(np.exp(mean - share) - known, 0.0, 1.0)
        variance = float((weight**2 * chance * (1.0 - chance)).sum()) + 0.5
        error = math.exp(min(least - mean, 700.0)) * math.sqrt(variance) / total
        return mean, min(error, math.exp(self.upper - mean) - math.exp(min(self.lower, self.upper) - mean))

    def budget_error(self, certain: bool, forwards: int) -> BudgetExhausted:
        """The error for an exhausted budget.

        Args:
            certain: the upper bound is guaranteed; otherwise it is a confidence limit.
            forwards: rows that the model has read.
        """
        upper = above(self.upper) if certain else self._likely_upper()
        size = f"{upper:.3g}"
        if certain and 0.0 < upper < 1e-300:
            size = f"10^{math.ceil(self.upper / math.log(10))}"
        bound = f"at most {size}" + ("" if certain else " (with 95 % confidence)")
        return BudgetExhausted(
            f"{len(self.accepted)} of {self.target_count} completions after {self.attempts} attempts: "
            f"the model's completion is valid with probability {bound}",
            action="raise the budget (attempts=...), describe the required form in the prompt, or use sampler='smc'",
            diagnostics={
                "attempts": self.attempts,
                "accepted": len(self.accepted),
                "forwards": forwards,
                "lower": below(self.lower),
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
    randomness: Callable[[int], Randomness],
    write: Callable[[Sequence[Any]], float],
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
        randomness: the random numbers of an attempt, by its number in this call.
        write: completes the sequences of one batch; returns the log of the mass that they were drawn from.
        mass: log of the upper bound of P(L) after a batch.
        certain: whether `mass` is a guaranteed bound that tightens.

    Raises:
        BudgetExhausted: the attempts are exhausted, or no valid sequence is possible.
    """
    tally = AttemptTally(count)
    while len(tally.accepted) < count:
        left = attempts * count - tally.attempts
        # A bound from earlier calls is believed after an attempt of this one: the model may be another one by now.
        if left <= 0 or (tally.attempts and mass() == -math.inf):
            tally.upper = mass()
            raise tally.budget_error(certain, batch.forwards)
        rate = (len(tally.accepted) + 1) / (tally.attempts + 1)
        wanted = math.ceil((count - len(tally.accepted)) / rate)
        width = min(parallel, left, max(1, wanted))
        texts = batch.start([randomness(tally.attempts + i) for i in range(width)])
        share = write(texts)
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
