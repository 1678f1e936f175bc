"""Labels read as words: what a model says to ``card_arrival`` as an answer in words, ``card arrival``."""

from __future__ import annotations

import re
from dataclasses import replace

from constrained.decisions.questions import ClosedAnswer, Question
from constrained.vocabulary import Vocabulary

_GAPS = re.compile(r"[\s_\-./]+|(?<=[a-z])(?=[A-Z])")


def worded_question(question: Question, vocabulary: Vocabulary) -> Question | None:
    """The question with the words of its options, behind which anything may follow.

    Args:
        question: whose options are texts.
        vocabulary: of the model.

    Returns:
        None: an option is no text, or leaves a member out, or two have the same words.
    """
    values = [question.value(index) for index in range(len(question.options))]
    if not all(isinstance(value, str) for value in values):
        return None
    words = [" ".join(filter(None, _GAPS.split(value))).lower() for value in values]
    if not all(words) or len(set(words)) < len(words):
        return None
    options = tuple(
        ClosedAnswer(option.text, tuple(vocabulary.encode(word)), None)
        for option, word in zip(question.options, words, strict=True)
    )
    return replace(question, options=options, lead=0)
