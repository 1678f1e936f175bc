"""`Decision`: the answer to a closed question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.decisions.evidence import Evidence
from constrained.decisions.questions import Question
from constrained.sampling.randomness import CHOICES, Randomness


@dataclass(frozen=True)
class Decision:
    """The answer to a closed question, and how sure it is.

    Attributes:
        value: the answer.
        text: as it is written; `ABSENT` for a member that is left out.
        probabilities: of each option, by its value (by its JSON text where values are no keys of a dict); with
            ``prior="subtract"`` the prior is taken off, and with a calibration they are calibrated.
        unadjusted: the model's own probability of each option, given that the answer is one of them.
        mass: probability that the model writes one of the options at all.
    """

    value: Any
    text: str
    probabilities: Mapping[Any, float]
    unadjusted: Mapping[Any, float]
    mass: float

    @property
    def probability(self) -> float:
        """Of the answer."""
        return self.probabilities[_key(self.text, self.value, self.probabilities)]

    @property
    def entropy(self) -> float:
        """Of `probabilities`, in nats: 0 where one option is certain, log n where n are alike."""
        return -sum(one * math.log(one) for one in self.probabilities.values() if one > 0)

    @property
    def mean(self) -> float:
        """The expected value of a question whose options are numbers."""
        return sum(float(value) * share for value, share in self.probabilities.items())


def decided(
    question: Question,
    evidence: Evidence,
    scores: NDArray[np.float64],
    temperature: float,
    randomness: Randomness | None,
) -> Decision:
    """The decision by the scores of the options.

    Args:
        question: what is asked.
        evidence: what the model says.
        scores: of the options, in nats: log-probabilities, or what is left of them, float64 [options].
        temperature: 0: the option with the highest score; else one is drawn.
        randomness: for draws.
    """
    if temperature and randomness is not None:
        index = randomness.pick(
            scores / temperature, np.arange(len(scores)), sum(question.pointer.encode()), CHOICES
        )
    else:
        index = int(np.argmax(scores))
    text = question.options[index].text
    values = [question.value(i) for i in range(len(question.options))]
    names = _names(values, [option.text for option in question.options])
    return Decision(
        values[index], text, _shares(names, scores), _shares(names, evidence.logprobs), evidence.mass
    )


def _names(values: list[Any], texts: list[str]) -> list[Any]:
    """What options are called: by their values, if these are different keys."""
    scalars = all(isinstance(value, str | int | float | None) for value in values)
    kinds = {(type(value) is bool, value) for value in values} if scalars else set()
    if not scalars or len({value for _, value in kinds}) < len(kinds):
        return texts
    return values


def _key(text: str, value: Any, among: Mapping[Any, float]) -> Any:
    return text if isinstance(value, list | dict) or value not in among else value


def _shares(names: list[Any], scores: NDArray[np.float64]) -> dict[Any, float]:
    """Probabilities by name, which several texts of one value share."""
    shares = np.exp(scores - scores.max())
    found: dict[Any, float] = {}
    for name, share in zip(names, shares / shares.sum(), strict=True):
        found[name] = found.get(name, 0.0) + float(share)
    return found
