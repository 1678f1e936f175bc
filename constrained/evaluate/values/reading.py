"""The value in the text of an engine that returns only texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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
