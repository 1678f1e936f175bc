"""Options that a text names: that the word of an answer stands in the text is evidence, which a small model hardly takes from it.

That no option's word stands there is evidence, too: for leaving the member out, where it may be.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from constrained.decisions.questions import ABSENT, Question

NAMING = 3.0
"""What an option gains that the text names, in nats; measured: 1 to 5 give nearly the same."""
UNNAMED = 1.0
"""What `ABSENT` gains where the text names no option, in nats; measured: 1 and 2 give nearly the same, .5 two thirds of it."""

_GAPS = re.compile(r"[\s_\-]+")
_SHORTEST = 2
"""Characters of an option that is looked for: a letter or a digit stands in most texts."""


def named_options(question: Question, text: str) -> NDArray[np.float64]:
    """What the options gain from the words of a text, in nats, float64 [options].

    `NAMING` for each option whose value stands in it as words of its own. Case, hyphens and underscores make no difference. Where one
    option is part of another one, the longer one is read first. `UNNAMED` for `ABSENT`, if no option's does.

    Args:
        question: its texts and numbers are looked for, no booleans, nulls or lists.
        text: that the question is about.
    """
    left = _GAPS.sub(" ", text).casefold()
    gains = np.zeros(len(question.options))
    words = {index: _words(question.value(index)) for index in range(len(question.options))}
    sought = [index for index, word in words.items() if len(word) >= _SHORTEST]
    for index in sorted(sought, key=lambda index: -len(words[index])):
        left, count = re.subn(rf"(?<!\w){re.escape(words[index])}(?!\w)", "\0", left)
        gains[index] = NAMING * (count > 0)
    if sought and not gains.any():
        gains[[option.text == ABSENT for option in question.options]] = UNNAMED
    return gains


def _words(value: object) -> str:
    """How a value would stand in a text; empty: it is not looked for."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return _GAPS.sub(" ", str(value)).casefold().strip()
