"""The prior taken off: the answer for which the text speaks, not the one that a model likes anyway.

A model prefers some options whatever the text says ("yes" to "no", the first of a list). What it says to texts that say nothing
shows how much, and is subtracted: the score of an option is log P(option | text) - strength * log P(option | nothing), the
pointwise mutual information of option and text at strength 1 (Holtzman et al. 2021, "Surface form competition";
Zhao et al. 2021, "Calibrate before use"). An option that the text names gains, see `naming`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from constrained.decisions.evidence import Evidence, ask
from constrained.decisions.naming import named_options
from constrained.decisions.questions import Question
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel

T = TypeVar("T")

NEUTRAL_TEXTS = ("N/A", "A text about something else.", "Hello, this is a text.")
"""Texts that say nothing."""


@dataclass(frozen=True)
class Weighing:
    """How the evidence for a question becomes the scores of its options.

    Attributes:
        question: what is asked.
        prior: what is taken off each option, in nats, float64 [options].
        temperature: what the rest is divided by.
        naming: options gain from the words of the text.
    """

    question: Question
    prior: NDArray[np.float64]
    temperature: float = 1.0
    naming: bool = False

    def about(self, text: str) -> Weighing:
        """The weighing of the evidence for one text: options that it names gain by that."""
        return replace(self, prior=self.prior - self.named(text))

    def named(self, text: str) -> NDArray[np.float64]:
        """What the options gain from the words of a text, in nats, float64 [options]."""
        return named_options(self.question, text) if self.naming else np.zeros(len(self.question.options))

    def scores(self, evidence: Evidence) -> NDArray[np.float64]:
        """The scores of the options, in nats, float64 [options]."""
        return (evidence.logprobs - self.prior) / self.temperature


def result_of(steps: Steps[T]) -> T:
    """The result, after all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def plain(questions: Sequence[Question]) -> list[Weighing]:
    """Nothing is taken off: scores are log-probabilities."""
    return [Weighing(question, np.zeros(len(question.options))) for question in questions]


_WEAK, _STRONG = 0.01, 0.5
"""What holds the biases of options, and the temperature, where a fit begins: nats squared, for all texts together."""
Steps: TypeAlias = Generator[list[Any], None, T]
"""What is read in several passes: yields nothing between two of them, so that others get theirs."""
_CACHED = 256
"""Types whose priors are kept."""
_known: LRUCache[Any, list[NDArray[np.float64]]] = LRUCache(_CACHED)


def neutral_steps(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    questions: Sequence[Question],
    strength: float = 1.0,
) -> Steps[list[Weighing]]:
    """What the model says behind prompts that say nothing is taken off; read once for a model, prompts and questions, a prompt a step.

    Args:
        model: reads the prompts.
        prompts: token ids.
        questions: what is asked.
        strength: how much is taken off.
    """
    options = tuple(
        tuple(
            (option.tokens, None if option.ends is None else option.ends.tobytes())
            for option in question.options
        )
        for question in questions
    )
    key = (model.fingerprint, tuple(map(tuple, prompts)), options, strength)
    priors = _known.get(key)
    if priors is None:
        readings = []
        for prompt in prompts:
            readings.append(ask(model, prompt, questions))
            yield []
        priors = [weighing.prior for weighing in mean_prior(questions, readings, strength)]
        _known.put(key, priors)
    return [Weighing(question, prior, naming=True) for question, prior in zip(questions, priors, strict=True)]


def mean_prior(
    questions: Sequence[Question], readings: Sequence[Sequence[Evidence]], strength: float = 1.0
) -> list[Weighing]:
    """The mean of what the model says to some texts is taken off.

    Args:
        questions: what is asked.
        readings: for each text the evidence for each question.
        strength: how much of it.
    """
    return [
        Weighing(
            question,
            strength * np.mean([reading[index].logprobs for reading in readings], axis=0),
            naming=True,
        )
        for index, question in enumerate(questions)
    ]


def fitted(
    weighing: Weighing, evidence: Sequence[Evidence], right: Sequence[int], *, steps: int = 1000
) -> Weighing:
    """The prior and the temperature under which the right options of some texts are most likely.

    Logistic regression (Platt 1999) on the log-probabilities: one temperature, and a bias for each option that is held
    near the prior there was, by as much as a few texts weigh.

    Args:
        weighing: where the fit begins.
        evidence: for each text.
        right: index of the right option of each text.
        steps: of the descent.
    """
    logs = np.array([one.logprobs for one in evidence])
    logs = np.maximum(logs, -60.0)  # an option that the model rules out
    chosen = np.eye(logs.shape[1])[list(right)]
    slope, bias = 1.0 / weighing.temperature, np.zeros(logs.shape[1])
    held, held_slope = _WEAK / len(logs), _STRONG / len(logs)
    rate, before = 1.0, np.inf
    for _ in range(steps):
        scores = slope * (logs - weighing.prior) + bias
        scores -= np.logaddexp.reduce(scores, axis=1, keepdims=True)
        loss = (
            -float((chosen * scores).sum()) / len(logs)
            + held * float((bias**2).sum())
            + held_slope * (slope - 1) ** 2
        )
        rate = rate * 1.1 if loss <= before else rate * 0.5
        before = loss
        wrong = (np.exp(scores) - chosen) / len(logs)
        bias = bias - rate * (wrong.sum(axis=0) + 2 * held * bias)
        gradient = float((wrong * (logs - weighing.prior)).sum())
        scale = 1.0 + float(np.var(logs - weighing.prior))
        slope = max(0.05, slope - rate / scale * (gradient + 2 * held_slope * (slope - 1)))
    return replace(weighing, prior=weighing.prior - bias / slope, temperature=1.0 / slope)
