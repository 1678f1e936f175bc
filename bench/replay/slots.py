"""The slots of a JSON text, as short JSON texts that end in the same slot: the form in which a prior needs no vocabulary.

Follows spec/_core/json_path.cpp: two openings that a drafter cannot tell apart in an order of its slots are one text here.
"""

from __future__ import annotations

from collections.abc import Iterator

from constrained.spec import _core

ORDERS = (2, 3, 4, 5)
"""Of spec/_core/sources.cpp: the name and the one above it, the name, what was written, its shape."""

_LONGEST = 47
"""Bytes of what was written since the last turn that count, less one."""
_ARRAY = "["
_FILLERS = "aA0 -"
"""A byte of each class of `byte_class`, see spec/_core/continuations.cpp."""


def words(text: str) -> list[str]:
    """The words of a text, which tokens do not cross."""
    data = text.encode()
    ends = _core.word_ends(data)
    return [data[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)]


def openings(text: str) -> Iterator[tuple[str, dict[int, str]]]:
    """Each word of a JSON text, and the slot before it: by order, an opening that ends there."""
    reader = SlotReader()
    for word in words(text):
        yield word, reader.openings()
        for character in word:
            reader.read(character)


class SlotReader:
    """Where a JSON text stands; names are written with their quotes, and `_ARRAY` stands for an array.

    Attributes:
        kind: ``key``, ``colon``, ``value``, or ``after`` one.
        partial: what was written since the last turn.
        quoted: inside a string.
        escaped: after a backslash in it.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._name = ""
        self.kind = "value"
        self.partial = ""
        self.quoted = self.escaped = False
        self._last = ""

    def read(self, character: str) -> None:
        """One more character."""
        self._last = character
        if self.quoted:
            self.partial += character
            if self.escaped:
                self.escaped = False
            elif character == "\\":
                self.escaped = True
            elif character == '"':
                self.quoted = False
                if self.kind == "key":
                    self._name, self.kind = self.partial, "colon"
                else:
                    self.kind = "after"
                self.partial = ""
        elif character == '"':
            self.quoted, self.partial = True, character
        elif character in "{[":
            self._names.append(self._name)
            self._name, self.kind = ("", "key") if character == "{" else (_ARRAY, "value")
            self.partial = character
        elif character in "}]":
            self._name = self._names.pop() if self._names else ""
            self.kind, self.partial = "after", ""
        elif character == ",":
            self.kind, self.partial = ("value" if self._name == _ARRAY else "key"), character
        elif character == ":":
            self.kind, self.partial = "value", character
        else:
            self.partial += character

    def openings(self) -> dict[int, str]:
        """By order; none where a drafter's slots are cut off."""
        found = {5: self._shape()}
        if len(self.partial.encode()) > _LONGEST or not self._names:
            return found
        parent = self._names[-1]
        around = _ARRAY if parent == _ARRAY else f"{{{parent}:" if parent else ""
        named = self._opening(self._name, self.partial)
        found[2], found[3] = around + named, named
        unnamed = self._opening(
            _ARRAY if self.kind == "value" and self.partial[:1] != ":" else '""', self.partial
        )
        found[4] = _ARRAY * (len(self._names) > 1) + unnamed
        return found

    def _opening(self, name: str, partial: str) -> str:
        if name == _ARRAY and self.kind == "after":
            return '[""' + partial
        if name == _ARRAY:
            return {"[": "", ",": "[0", '"': "["}[partial[0]] + partial
        if self.kind == "key":
            return (
                partial
                if partial[0] == "{"
                else ("{" + f"{name}:0" * (name != ""))
                + (("," * (name != "") if partial[0] == '"' else "") + partial)
            )
        return (
            f"{{{name}"
            + {"colon": "", "after": ':""', "value": ":" * (partial[:1] == '"')}[self.kind]
            + partial
        )

    def _shape(self) -> str:
        if not self._last:
            return ""
        size = len(self.partial.encode()[: _LONGEST + 1])
        size = 1 << (size.bit_length() - 1) if size else 0
        in_array = self._name == _ARRAY
        if self.kind == "after":
            return ('[""' if in_array else '{"":""') + " " * size
        if self.kind == "colon":
            return '{""' + " " * size
        if self.kind == "key":
            opened = '{"' if self.quoted else "{"
        else:
            opened = ("[" if in_array else '{"":') + ('"' if self.quoted else "")
        return opened + self._filler(size - 1)

    def _filler(self, size: int) -> str:
        if size <= 0:
            return ""
        last = "\\" if self.escaped else _FILLERS[_byte_class(self._last)]
        return ("a" if self.quoted else " ") * (size - 1) + last


def _byte_class(character: str) -> int:
    if "a" <= character <= "z" or character > "\x7f":
        return 0
    if "A" <= character <= "Z":
        return 1
    if "0" <= character <= "9":
        return 2
    return 3 if character in " \n\t\r" else 4
