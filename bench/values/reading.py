"""The value in the text of an engine that returns only texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_DECODER = json.JSONDecoder()


def read_object(text: str) -> Any:
    """The first object in a text, whatever stands around it, such as a code fence; None: there is none that is whole.

    What is in braces and no JSON is skipped; what stands in braces that never close is no answer.
    """
    at = text.find("{")
    while at >= 0:
        try:
            return _DECODER.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            at = text.find("{", _closing(text, at))
    return None


def _closing(text: str, at: int) -> int:
    """Where the brace at a place is closed; the end of the text if it is not."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return place
    return len(text)


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
