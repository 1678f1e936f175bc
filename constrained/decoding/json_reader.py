"""`JsonReader`: which strings, arrays and objects are open at the end of a JSON text that comes in pieces."""

from __future__ import annotations

import copy
from dataclasses import dataclass


@dataclass(slots=True)
class _Container:
    """An open array or object: where it begins, and the strings and objects that an array has as items, as they are written."""

    start: int
    is_array: bool
    items: frozenset[bytes] = frozenset()


class JsonReader:
    """Reads a JSON text piece by piece: what is open at its end.

    Attributes:
        text: that was read.
        open: arrays and objects, outermost first.
        string: where the open string begins, in bytes; None outside of strings.
        last_item: the last string or object that was an item of an array, as it is written.
        repeated_item: whether it stands at the end of the text, and was an item of its array before.
        went_on: the starts of arrays and objects that have begun another item or member in the last piece.
    """

    def __init__(self) -> None:
        self.text = bytearray()
        self.open: list[_Container] = []
        self.string: int | None = None
        self.last_item = b""
        self.repeated_item = False
        self.went_on: set[int] = set()
        self._last_string: int | None = None
        self._escaped = False

    def copy(self) -> JsonReader:
        """An independent copy."""
        twin = copy.copy(self)
        twin.text, twin.open = bytearray(self.text), [copy.copy(one) for one in self.open]
        return twin

    def read(self, piece: bytes) -> None:
        """Reads on."""
        self.went_on = set()
        for byte in piece:
            self.text.append(byte)
            if self.string is not None:
                if self._escaped:
                    self._escaped = False
                elif byte == 0x5C:
                    self._escaped = True
                elif byte == 0x22:
                    self._end_string(self.string)
            elif byte == 0x22:
                self.string = len(self.text) - 1
            elif byte in b"[{":
                self.open.append(_Container(len(self.text) - 1, byte == 0x5B))
            elif byte in b"]}":
                self.repeated_item = False
                if self.open:
                    value = self.open.pop()
                    if not value.is_array:
                        self._end_item(value.start)
            elif byte == 0x2C and self.open:
                self.repeated_item = False
                self.went_on.add(self.open[-1].start)

    def _end_string(self, start: int) -> None:
        self.string, self._last_string = None, start
        self._end_item(start)

    def _end_item(self, start: int) -> None:
        if self.open and self.open[-1].is_array:
            array, self.last_item = self.open[-1], bytes(self.text[start:])
            self.repeated_item = self.last_item in array.items
            array.items = array.items | {self.last_item}

    @property
    def repeats_item(self) -> bool:
        """Whether the open string, if it ended here, would be an item that its array has."""
        if self.string is None or not self.open or not self.open[-1].is_array or not self.open[-1].items:
            return False
        return bytes(self.text[self.string :]) + b'"' in self.open[-1].items

    def array_of_last_string(self, start: int) -> int | None:
        """Where the open array begins whose item is the string that begins there and ended last; None without one."""
        if start != self._last_string or not self.open or not self.open[-1].is_array:
            return None
        return self.open[-1].start

    def is_open(self, start: int) -> bool:
        """Whether the value that begins there is not complete."""
        return start == self.string or any(one.start == start for one in self.open)

    def value_around(self, size: int) -> int | None:
        """Where the innermost open string, array or object begins that the last `size` bytes lie in; None without one."""
        zone = len(self.text) - size
        starts = [one.start for one in self.open] + ([] if self.string is None else [self.string])
        return max((start for start in starts if start <= zone), default=None)
