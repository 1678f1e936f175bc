"""The slots of a JSON text, as short JSON texts that end in the same slot: the form in which a prior needs no vocabulary.

Follows spec/_core/json_path.cpp: two openings that a drafter cannot tell apart in an order of its slots are one text here.
"""

from __future__ import annotations

from collections.abc import Iterator

from spec import _core

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
    reader = _SlotReader()
    for word in words(text):
        yield word, reader.openings()
        for character in word:
            reader.read(character)


class _SlotReader:
    """Where a JSON text stands; names are written with their quotes, and `_ARRAY` stands for an array."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._name = ""
        self._kind = "value"
        self._partial = ""
        self._quoted = self._escaped = False
        self._last = ""

    def read(self, character: str) -> None:
        """One more character."""
        self._last = character
        if self._quoted:
            self._partial += character
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._quoted = False
                if self._kind == "key":
                    self._name, self._kind = self._partial, "colon"
                else:
                    self._kind = "after"
                self._partial = ""
        elif character == '"':
            self._quoted, self._partial = True, character
        elif character in "{[":
            self._names.append(self._name)
            self._name, self._kind = ("", "key") if character == "{" else (_ARRAY, "value")
            self._partial = character
        elif character in "}]":
            self._name = self._names.pop() if self._names else ""
            self._kind, self._partial = "after", ""
        elif character == ",":
            self._kind, self._partial = ("value" if self._name == _ARRAY else "key"), character
        elif character == ":":
            self._kind, self._partial = "value", character
        else:
            self._partial += character

    def openings(self) -> dict[int, str]:
        """By order; none where a drafter's slots are cut off."""
        found = {5: self._shape()}
        if len(self._partial.encode()) > _LONGEST or not self._names:
            return found
        parent = self._names[-1]
        around = _ARRAY if parent == _ARRAY else f"{{{parent}:" if parent else ""
        named = self._opening(self._name, self._partial)
        found[2], found[3] = around + named, named
        unnamed = self._opening(
            _ARRAY if self._kind == "value" and self._partial[:1] != ":" else '""', self._partial
        )
        found[4] = _ARRAY * (len(self._names) > 1) + unnamed
        return found

    def _opening(self, name: str, partial: str) -> str:
        if name == _ARRAY and self._kind == "after":
            return '[""' + partial
        if name == _ARRAY:
            return {"[": "", ",": "[0", '"': "["}[partial[0]] + partial
        if self._kind == "key":
            return (
                partial
                if partial[0] == "{"
                else ("{" + f"{name}:0" * (name != ""))
                + (("," * (name != "") if partial[0] == '"' else "") + partial)
            )
        return (
            f"{{{name}"
            + {"colon": "", "after": ':""', "value": ":" * (partial[:1] == '"')}[self._kind]
            + partial
        )

    def _shape(self) -> str:
        if not self._last:
            return ""
        size = len(self._partial.encode()[: _LONGEST + 1])
        size = 1 << (size.bit_length() - 1) if size else 0
        in_array = self._name == _ARRAY
        if self._kind == "after":
            return ('[""' if in_array else '{"":""') + " " * size
        if self._kind == "colon":
            return '{""' + " " * size
        if self._kind == "key":
            opened = '{"' if self._quoted else "{"
        else:
            opened = ("[" if in_array else '{"":') + ('"' if self._quoted else "")
        return opened + self._filler(size - 1)

    def _filler(self, size: int) -> str:
        if size <= 0:
            return ""
        last = "\\" if self._escaped else _FILLERS[_byte_class(self._last)]
        return ("a" if self._quoted else " ") * (size - 1) + last


def _byte_class(character: str) -> int:
    if "a" <= character <= "z" or character > "\x7f":
        return 0
    if "A" <= character <= "Z":
        return 1
    if "0" <= character <= "9":
        return 2
    return 3 if character in " \n\t\r" else 4
