"""The value in the text of an engine that returns only texts; texts that repeat themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

MOST_REPEATS = 5
"""More than so many equal items or phrases in a row are a repetition."""
_PHRASE = re.compile(rf"(\S.{{1,79}}?)\1{{{MOST_REPEATS},}}", re.DOTALL)
_DECODER = json.JSONDecoder()


def read_object(text: str) -> Any:
    """The object that begins at the first brace, whatever stands around it, such as a code fence; None: it is not whole."""
    at = text.find("{")
    try:
        return None if at < 0 else _DECODER.raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return None


def read_choice(text: str, options: Sequence[str]) -> str | None:
    """The option that stands first in a text, of several at one place the longest; None: there is none."""
    places = [(text.find(option), -len(option), option) for option in options if option in text]
    return min(places)[2] if places else None


def read_calls(text: str) -> list[dict[str, Any]]:
    """The objects with a ``name`` and ``arguments`` in a text, whatever stands around them; those that are not whole are left out."""
    calls, at = [], text.find("{")
    while at >= 0:
        end = at + 1
        try:
            found, whole = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and isinstance(found.get("arguments"), dict) and "name" in found:
            calls.append({"name": found["name"], "arguments": found["arguments"]})
            end = whole
        at = text.find("{", end)
    return calls


def repeats(text: str, value: Any = None) -> bool:
    """Whether a phrase of the text, or an item of an array in the value, comes too often in a row."""
    return _PHRASE.search(text) is not None or _has_run(value)


def _has_run(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_run, value.values()))
    if not isinstance(value, list):
        return False
    runs = (len(list(run)) for _, run in groupby(value))
    return any(run > MOST_REPEATS for run in runs) or any(map(_has_run, value))
