"""Options that a text names: that the word of an answer stands in the text is evidence, which a small model hardly takes from it."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from constrained.decisions.questions import Question

NAMING = 2.0
"""What an option gains that the text names, in nats; measured: 1 to 5 give nearly the same."""

_GAPS = re.compile(r"[\s_\-]+")
_SHORTEST = 2
"""Characters of an option that is looked for: a letter or a digit stands in most texts."""


def named_options(question: Question, text: str) -> NDArray[np.float64]:
    """1 for each option whose value stands in a text as words of its own, else 0, float64 [options].

    Case, hyphens and underscores make no difference. Where one option is part of another one, the longer one is read first.

    Args:
        question: its texts and numbers are looked for, no booleans, nulls or lists.
        text: that the question is about.
    """
    left = _GAPS.sub(" ", text).casefold()
    found = np.zeros(len(question.options))
    words = {index: _words(question.value(index)) for index in range(len(question.options))}
    for index in sorted(words, key=lambda index: -len(words[index])):
        if len(words[index]) >= _SHORTEST:
            left, count = re.subn(rf"(?<!\w){re.escape(words[index])}(?!\w)", "\0", left)
            found[index] = float(count > 0)
    return found


def _words(value: object) -> str:
    """How a value would stand in a text; empty: it is not looked for."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return _GAPS.sub(" ", str(value)).casefold().strip()
