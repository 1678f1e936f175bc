"""Substrings that no string of a JSON text may contain, matched as the text is written: before escapes are read.

Servers name the special tokens of a model this way: none of them may stand inside an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

from constrained.grammars import ir
from constrained.grammars.json_schema.text.strings import QUOTE


class ExcludedSubstrings:
    """Substrings that are excluded from strings without ``pattern`` and ``format``, and from the names of members.

    Args:
        texts: non-empty texts; none of them: nothing is excluded.

    Attributes:
        texts: as passed, each once.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._any = ir.concat(ir.TEXT, ir.union(*map(ir.literal, self.texts)), ir.TEXT)

    def without(self, body: ir.Regex) -> ir.Regex:
        """The texts of a language that contain none of the substrings."""
        return ir.difference(body, self._any) if self.texts else body

    def within_quotes(self, strings: ir.Regex) -> ir.Regex:
        """The JSON strings of a language that contain none of the substrings between their quotes."""
        if not self.texts:
            return strings
        return ir.difference(strings, ir.concat(QUOTE, self._any, QUOTE))

    def allow(self, value: Any) -> bool:
        """Whether no string in a JSON value contains one of the substrings, as `json.dumps` writes it."""
        stack = [value] if self.texts else []
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                written = encode_basestring(item)[1:-1]
                if any(text in written for text in self.texts):
                    return False
            elif isinstance(item, dict):
                stack += [*item, *item.values()]
            elif isinstance(item, (list, tuple)):
                stack += item
        return True
