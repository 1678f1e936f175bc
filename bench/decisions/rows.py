"""An answer as a row; accuracy, log loss and calibration of some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from constrained.bench.decisions.ways import FieldAnswer

BINS = 10
"""Of confidence, equally wide."""


@dataclass(slots=True)
class DecisionRow:
    """The answers to one item in one way.

    Attributes:
        task, id, way: what was answered, and how.
        answers: one for each question.
        error: what went wrong.
        passes: of the model.
        seconds: of processor time for the call; what compiling takes is not in it.
    """

    task: str
    id: str
    way: str
    answers: list[FieldAnswer] = field(default_factory=list)
    error: str = ""
    passes: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Reads answers that are JSON values, as in a folder."""
        self.answers = [one if isinstance(one, FieldAnswer) else FieldAnswer(**one) for one in self.answers]


def log_loss(answers: Sequence[FieldAnswer]) -> float | None:
    """The mean of -log P(the right option), in nats; None where answers have no probabilities."""
    if not answers or not all(answer.logprobs for answer in answers):
        return None
    return -math.fsum(answer.logprobs[answer.right] for answer in answers) / len(answers)


def calibration_error(answers: Sequence[FieldAnswer]) -> float | None:
    """The expected calibration error (Guo et al. 2017): by how much the probability of answers differs from their accuracy.

    Returns:
        The mean over the answers of the difference in their bin of `BINS`; None where answers have no probabilities.
    """
    if log_loss(answers) is None:
        return None
    excess = [0.0] * BINS
    for answer in answers:
        assert answer.picked is not None
        confidence = math.exp(answer.logprobs[answer.picked])
        bin_ = min(BINS - 1, int(confidence * BINS))
        excess[bin_] += confidence - (answer.picked == answer.right)
    return math.fsum(map(abs, excess)) / len(answers)


def largest_differences(pairs: Iterable[tuple[DecisionRow, DecisionRow]]) -> tuple[float, float] | None:
    """The largest differences in the log-probability of an option, and in its probability, that two ways gave to the same items.

    Returns:
        None: there is no pair.
    """
    both = [
        (a, b)
        for one, other in pairs
        for left, right in zip(one.answers, other.answers, strict=True)
        for a, b in zip(left.logprobs, right.logprobs, strict=True)
    ]
    if not both:
        return None
    return max(abs(a - b) for a, b in both), max(abs(math.exp(a) - math.exp(b)) for a, b in both)
