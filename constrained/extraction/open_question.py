"""A choice as an open question: the model is not shown the options, and is asked for an answer in words.

A small model that reads a list of options likes some of them whatever the text says. What it says to the words of each without the list,
the prior off, is evidence that it has from the text: pointwise mutual information as in `constrained.decisions.prior`, of another
prompt. It counts `SHARE`, and the question with its options the rest: larger models know what to do with a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from constrained.decisions import Question, ask
from constrained.decisions.prior import NEUTRAL_TEXTS, Steps, Weighing, neutral_steps, result_of
from constrained.decisions.wording import worded_question
from constrained.extraction.prompt import PromptParts, open_prompt
from constrained.models import LanguageModel

SHARE = 0.75
"""Of the open question; measured from 0 to 1 in docs/decisions.md."""


class OpenQuestion:
    """The open question of a choice, safe to share between threads. A text takes one pass more."""

    def __init__(
        self,
        model: LanguageModel,
        question: Question,
        parts: PromptParts,
        neutral_texts: Sequence[str],
        strength: float,
    ) -> None:
        """Use `open_question`, which knows where there is one.

        Args:
            model: reads the texts.
            question: in words, of `worded_question`.
            parts: of the prompt.
            neutral_texts: texts that say nothing.
            strength: how much of what the model says to them is taken off.
        """
        self._model, self._question, self._parts = model, question, parts
        self._neutral, self._strength = tuple(neutral_texts), strength
        self._prior: NDArray[np.float64] | None = None

    def joined(self, weighing: Weighing, text: str) -> Weighing:
        """The weighing of the evidence for a text, with what the model says to the open question about it.

        Args:
            weighing: of the question with its options, of `with_share`, for this text.
            text: what is asked about.
        """
        if self._prior is None:
            result_of(self.neutral_steps())
        assert self._prior is not None
        (evidence,) = ask(self._model, self._ids(text), [self._question])
        gains = evidence.logprobs - self._prior + weighing.named(text)
        return replace(weighing, prior=weighing.prior - SHARE / (1 - SHARE) * gains)

    def neutral_steps(self) -> Steps[None]:
        """Reads the texts that say nothing, once."""
        if self._prior is None:
            prompts = [self._ids(neutral) for neutral in self._neutral]
            made = yield from neutral_steps(self._model, prompts, [self._question], self._strength)
            self._prior = made[0].prior

    def _ids(self, text: str) -> list[int]:
        return self._model.encode(open_prompt(text, self._parts))


def with_share(weighing: Weighing) -> Weighing:
    """The weighing of the question with its options, where an open question takes its share."""
    return replace(weighing, temperature=weighing.temperature / (1 - SHARE))


def open_question(
    model: LanguageModel,
    question: Question,
    parts: PromptParts,
    neutral_texts: Sequence[str] = NEUTRAL_TEXTS,
    strength: float = 1.0,
) -> OpenQuestion | None:
    """The open question of a choice.

    Args:
        model: reads the texts.
        question: the choice; what the schema says of a member is one more instruction.
        parts: of the prompt.
        neutral_texts: as of `OpenQuestion`.
        strength: likewise.

    Returns:
        None: an option is no text, or the prompt is a template or has examples, which show the options as they are.
    """
    if parts.template is not None or parts.examples:
        return None
    worded = worded_question(question, model.vocabulary)
    if worded is None:
        return None
    said = "\n".join(filter(None, (parts.instructions, question.about)))
    return OpenQuestion(model, worded, replace(parts, instructions=said or None), neutral_texts, strength)
