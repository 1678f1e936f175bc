"""The white space of JSON texts: what stood last after a colon, a comma, an opening bracket, and other bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.reference.spec.json_path import JsonPath

SPACE = b" \n\t\r"
OTHER = 4  # after the places behind `:`, `,`, `{` and `[`
Layout = tuple[bytes, ...]
"""By place: nothing, spaces (one stands for all), or line breaks and tabs (a line break)."""
USUAL: Layout = (b" ", b" ", b"", b"", b"")


@dataclass(frozen=True)
class LayoutReader:
    """Where a text stands between its words.

    Attributes:
        place: the next byte shows what stands there; None inside words and after white space.
        quoted: inside a string literal.
        escaped: after a backslash in it.
    """

    place: int | None = None
    quoted: bool = False
    escaped: bool = False

    @classmethod
    def at(cls, path: JsonPath | None, text: bytes) -> LayoutReader:
        """The reader at a place of a JSON text; one that has read nothing for other texts."""
        if path is None or not text:
            return cls()
        if path.quoted:
            return cls(None, quoted=True, escaped=path.escaped)
        return cls(quoted=text[-1:] == b'"').read(text[-1])  # a quote here ended a string

    def read(self, byte: int, learned: list[bytes] | None = None) -> LayoutReader:
        """The reader after a byte; `learned` is changed by what it shows."""
        char = bytes((byte,))
        if self.quoted:
            if self.escaped:
                return replace(self, escaped=False)
            if char == b"\\":
                return replace(self, escaped=True)
            return LayoutReader(OTHER) if char == b'"' else self
        if learned is not None and self.place is not None:
            learned[self.place] = b"" if char not in SPACE else b" " if char == b" " else b"\n"
        if char in SPACE:
            return LayoutReader()
        if char == b'"':
            return LayoutReader(None, quoted=True)
        return LayoutReader(b":,{[".index(char) if char in b":,{[" else OTHER)


def read_layout(reader: LayoutReader, layout: Layout, text: Sequence[int]) -> Layout:
    """The layout after more text."""
    learned = list(layout)
    for byte in text:
        reader = reader.read(byte, learned)
    return tuple(learned)
