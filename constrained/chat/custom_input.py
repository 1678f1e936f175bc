"""The input of a custom tool, which is a text: a model writes it as the one member of an object, ``{"input": "..."}``."""

from __future__ import annotations

import json
import re
from typing import Any

INPUT = "input"
"""Name of the member."""

_BEFORE = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_HEX = "[0-9a-fA-F]"
_WHOLE = re.compile(
    rf'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB]){_HEX}{{4}}|\\u{_HEX}{{4}}(?:\\u{_HEX}{{4}}|(?=[^\\]|\\[^u])))*',
    re.DOTALL,
)
"""Characters of a JSON string that are complete, and pairs of surrogates together."""


def as_arguments(text: Any) -> str:
    """The JSON that has an input as its one member."""
    return json.dumps({INPUT: text}, ensure_ascii=False)


class InputReader:
    """Reads the input out of its JSON while that is written."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False

    def feed(self, text: str) -> str:
        """The characters of the input that more JSON adds."""
        self._held += text
        if not self._inside:
            begin = _BEFORE.match(self._held)
            if begin is None:
                return ""
            self._inside, self._held = True, self._held[begin.end() :]
        whole = _WHOLE.match(self._held)
        assert whole is not None
        self._held = self._held[whole.end() :]
        read = json.loads(f'"{whole[0]}"', strict=False)
        return str(
            read.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )  # half a pair is no text
