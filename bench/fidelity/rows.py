"""What one set of texts came to: a row of the raw results."""

from __future__ import annotations

from dataclasses import dataclass

COMPLETED, EXHAUSTED, TOO_SLOW, NO_DRAFTS = "drawn", "exhausted", "too slow", "no drafts"
"""Outcomes: there is a set; the sampler's budget was spent before; it would have taken longer than allowed; the automaton
cannot draft, which `FidelityRow.message` explains."""


@dataclass(slots=True)
class FidelityRow:
    """A set of texts of one task, drawn by one sampler.

    Attributes:
        task, sampler: names.
        texts: how many were wanted.
        repeat: which of several equal measurements.
        outcome: see above.
        message: of a budget that was spent, or why there are no drafts.
        drawn: how many texts there are: of weighted ones those of weight 0 are left out.
        forwards: rows of forward passes.
        contexts: distinct prefixes after which logits were computed; None where the model does not record them.
        checks: questions put to the constraint.
        tokens: tokens of all texts, those that were given up included.
        attempts, accepted: texts begun, and of these ended well.
        seconds: time taken.
        cpu_seconds: processor time of the process.
        distance: total variation between the set and the exact distribution.
        divergence: KL(set || exact distribution), nats.
        fit: p-value of the G-test of the set against the exact distribution; None for weighted sets, to which the test does not apply.
        evidence: estimate of P(L) over its true value; None without one.
        evidence_error: its standard error over the true value.
        effective: effective number of texts.
    """

    task: str
    sampler: str
    texts: int
    repeat: int = 0
    outcome: str = COMPLETED
    message: str = ""
    drawn: int = 0
    forwards: int = 0
    checks: int = 0
    tokens: int = 0
    attempts: int = 0
    accepted: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    contexts: int | None = None
    distance: float | None = None
    divergence: float | None = None
    fit: float | None = None
    evidence: float | None = None
    evidence_error: float | None = None
    effective: float | None = None


@dataclass(frozen=True, slots=True)
class TaskDistribution:
    """What is known of a task without drawing anything.

    Attributes:
        task: its name.
        model: ``n-gram``, or the name of the model that was loaded.
        texts: how many there are.
        prefixes: prefixes visited by the enumeration.
        mass: P(L).
        local: total variation between masking and the exact distribution.
        local_divergence: KL(masking || exact distribution).
        floor: by number of texts, the mean total variation of as many exact draws: nobody gets closer.
    """

    task: str
    model: str
    texts: int
    prefixes: int
    mass: float
    local: float
    local_divergence: float
    floor: dict[int, float]


@dataclass(frozen=True, slots=True)
class BlockCost:
    """A stretch of a long run of one sampler.

    Attributes:
        task, sampler: names.
        first, last: which texts of the run.
        forwards: rows of forward passes for these.
    """

    task: str
    sampler: str
    first: int
    last: int
    forwards: int

    @property
    def per_text(self) -> float:
        """Forwards per text."""
        return self.forwards / (self.last - self.first + 1)
