"""A layer of a transformers cache that appends columns in place.

transformers' own layer copies all keys and values for each forward pass. Here they stand in a buffer with room for more
columns. Copies of a layer share the buffer: the columns that a layer sees never change, and only a layer that sees all columns
written so far appends to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

from constrained.models.selection import Selection

_ROOM = 64
"""Columns beyond those in use that a new buffer has."""


@dataclass(eq=False, slots=True)
class _Buffer:
    """Tensor [rows, heads, columns, size], of whose columns `written` were given to some layer."""

    tensor: torch.Tensor
    written: int


class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of all columns so far, float [rows, heads, columns, size]."""

    def __init__(self) -> None:
        """A layer without columns."""
        self._buffers: list[_Buffer | None] = [None, None]
        self._used = [0, 0]
        super().__init__()  # type: ignore[no-untyped-call]

    def __copy__(self) -> GrowingLayer:
        twin = object.__new__(GrowingLayer)
        twin.__dict__.update(self.__dict__)
        twin._buffers, twin._used = list(self._buffers), list(self._used)
        return twin

    @property
    def keys(self) -> Any:
        """All columns; a view, which is not to be written to."""
        return self._part(0)

    @keys.setter
    def keys(self, tensor: Any) -> None:
        self._set(0, tensor)

    @property
    def values(self) -> Any:
        """All columns; a view, which is not to be written to."""
        return self._part(1)

    @values.setter
    def values(self, tensor: Any) -> None:
        self._set(1, tensor)

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Appends columns to each row, see `DynamicLayer`."""
        self.append(key_states, value_states)
        return self.keys, self.values

    def append(self, key_states: Any, value_states: Any) -> None:
        """Appends columns to each row."""
        if not self.is_initialized:
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        for which, new in enumerate((key_states, value_states)):
            buffer, used = self._buffers[which], self._used[which]
            count = used + new.shape[2]
            if buffer is None or buffer.written != used or count > buffer.tensor.shape[2]:
                buffer = _empty(new, len(new), count)
                if used:
                    buffer.tensor[:, :, :used] = self._part(which)
                self._buffers[which] = buffer
            buffer.tensor[:, :, used:count] = new
            buffer.written = self._used[which] = count

    def select(self, chosen: Selection) -> None:
        """Keeps rows and columns."""
        for which, part in enumerate((self.keys, self.values)):
            rows, columns = chosen.indices(part.device)
            if columns is not None:
                part = part if rows is None else part.index_select(0, rows)
                buffer = _empty(part, len(part), len(columns))
                torch.index_select(part, 2, columns, out=buffer.tensor[:, :, : buffer.written])
            elif rows is not None:
                buffer = _empty(part, len(rows), part.shape[2])
                torch.index_select(part, 0, rows, out=buffer.tensor[:, :, : buffer.written])
            else:
                continue
            self._replace(which, buffer)

    def append_rows(self, others: Sequence[Any], columns: int) -> None:
        """Appends the rows of other layers; all are padded with zeros on the left to `columns` columns."""
        layers = (self, *others)
        for which, parts in enumerate(([one.keys for one in layers], [one.values for one in layers])):
            buffer = _empty(parts[0], sum(map(len, parts)), columns)
            row = 0
            for part in parts:
                begin = columns - part.shape[2]
                target = buffer.tensor[row : row + len(part)]
                target[:, :, :begin] = 0
                target[:, :, begin:columns] = part
                row += len(part)
            self._replace(which, buffer)

    def _part(self, which: int) -> Any:
        buffer = self._buffers[which]
        return None if buffer is None else buffer.tensor[:, :, : self._used[which]]

    def _set(self, which: int, tensor: Any) -> None:
        self._buffers[which] = None if tensor is None else _Buffer(tensor, tensor.shape[2])
        self._used[which] = 0 if tensor is None else tensor.shape[2]

    def _replace(self, which: int, buffer: _Buffer) -> None:
        self._buffers[which], self._used[which] = buffer, buffer.written


def _empty(like: torch.Tensor, rows: int, columns: int) -> _Buffer:
    """A buffer whose first columns are to be filled."""
    shape = (rows, like.shape[1], columns + _ROOM, like.shape[3])
    return _Buffer(torch.empty(shape, dtype=like.dtype, device=like.device), columns)
