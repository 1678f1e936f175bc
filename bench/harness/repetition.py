"""Texts and values that repeat themselves, as small models do."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any

MOST_REPEATS = 5
"""More than so many equal phrases or items in a row are a repetition."""
LEAST_CHARACTERS = 40
"""Of a text that equal phrases fill: 0.333333333333 and a digest of zeros are shorter."""
_RUN = re.compile(rf"([^ \t].{{1,199}}?)\1{{{MOST_REPEATS},}}", re.DOTALL)


def repeats(text: str, value: Any = None) -> bool:
    """Whether a phrase of the text or an item of an array comes more than five times in a row.

    A phrase has 2 to 200 characters, of which the first is no space; its run has at least 40.

    Args:
        text: what a model wrote; its arrays are looked at if it is JSON.
        value: what was read from a text that is not.
    """
    if value is None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
    return any(len(run[0]) >= LEAST_CHARACTERS for run in _RUN.finditer(text)) or _has_run(value)


def _has_run(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_run, value.values()))
    if not isinstance(value, list):
        return False
    runs = (len(list(run)) for _, run in groupby(value))
    return any(run > MOST_REPEATS for run in runs) or any(map(_has_run, value))
