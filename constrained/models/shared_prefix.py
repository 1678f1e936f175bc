"""A layer of a transformers cache whose rows share a prefix, which is stored once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from transformers.cache_utils import DynamicLayer

from constrained.models.cache_layers import EMPTY_LAYERS
from constrained.models.growing_layer import GrowingLayer
from constrained.models.selection import Selection


class SharedPrefixLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Columns of the common prefix, and each row's own columns.

    `keys` and `values`, float [rows, heads, columns, size], concatenate both at each access; a forward pass needs them for
    one layer at a time. Setting one of them ends the sharing of its columns.
    """

    def __init__(self, layer: Any, rows: int) -> None:
        """Shares the columns of a layer of one row.

        Args:
            layer: not changed.
            rows: number of rows that share it.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype, self.device, self.is_initialized = layer.keys.dtype, layer.keys.device, True
        self._common: list[torch.Tensor | None] = [layer.keys, layer.values]
        self._own: list[Any] = [
            tensor[:, :, :0].repeat(rows, 1, 1, 1) for tensor in (layer.keys, layer.values)
        ]

    def __copy__(self) -> SharedPrefixLayer:
        twin = object.__new__(SharedPrefixLayer)
        twin.__dict__.update(self.__dict__)
        twin._common, twin._own = list(self._common), list(self._own)
        return twin

    def _whole(self, which: int) -> Any:
        common, own = self._common[which], self._own[which]
        return own if common is None else torch.cat([common.expand(len(own), -1, -1, -1), own], dim=2)

    @property
    def keys(self) -> Any:
        """All columns."""
        return self._whole(0)

    @keys.setter
    def keys(self, tensor: Any) -> None:
        self._set(0, tensor)

    @property
    def values(self) -> Any:
        """All columns."""
        return self._whole(1)

    @values.setter
    def values(self, tensor: Any) -> None:
        self._set(1, tensor)

    def _set(self, which: int, tensor: Any) -> None:
        if "_own" in self.__dict__:  # the constructor of the base class sets both to None
            self._common[which], self._own[which] = None, tensor

    @property
    def common(self) -> int:
        """Number of shared columns."""
        return 0 if self._common[0] is None else int(self._common[0].shape[2])

    @property
    def bytes(self) -> int:
        """Memory of all columns, in bytes."""
        return sum(tensor.nbytes for tensor in (*self._common, *self._own) if tensor is not None)

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Appends columns to each row, see `DynamicLayer`."""
        new = (key_states, value_states)
        self._own = [torch.cat([own, more], dim=2) for own, more in zip(self._own, new, strict=True)]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Number of columns of a row."""
        return self.common + int(self._own[0].shape[2])

    def drop(self, columns: int) -> None:
        """Drops the first columns."""
        common = min(columns, self.common)
        self._common = [None if tensor is None else tensor[:, :, common:] for tensor in self._common]
        self._own = [tensor[:, :, columns - common :] for tensor in self._own]

    def select(self, chosen: Selection) -> None:
        """Keeps these rows and columns, in this order; the common columns are among them, and come first."""
        own = chosen.after(self.common)
        self._own = [own.of(tensor) for tensor in self._own]


def share_prefix(cache: Any, rows: int) -> list[Any] | None:
    """Layers for rows that share the single row of a cache as their prefix; None if its layers are of other kinds."""
    plain = (DynamicLayer, GrowingLayer)
    known = (*plain, *EMPTY_LAYERS)
    if any(type(layer) not in known or not layer.is_initialized for layer in cache.layers):
        return None
    return [SharedPrefixLayer(one, rows) if type(one) in plain else copy.copy(one) for one in cache.layers]


def select_columns(layer: Any, chosen: Selection) -> None:
    """Keeps rows and columns of a layer."""
    if isinstance(layer, GrowingLayer) or (isinstance(layer, SharedPrefixLayer) and layer.common):
        layer.select(chosen)
    else:
        layer.keys, layer.values = chosen.of(layer.keys), chosen.of(layer.values)


def append_rows(layer: Any, others: Sequence[Any], columns: int) -> None:
    """Appends the rows of other layers; all are padded with zeros on the left to `columns` columns."""
    if isinstance(layer, GrowingLayer):
        layer.append_rows(others, columns)
        return
    for name in ("keys", "values"):
        parts = [getattr(one, name) for one in (layer, *others)]
        setattr(layer, name, torch.cat([pad(part, (0, 0, columns - part.shape[2], 0)) for part in parts]))


def column_count(layer: Any) -> int:
    """Columns that a layer holds."""
    return int(layer.get_seq_length())


def drop_columns(layer: Any, columns: int) -> None:
    """Drops the first columns of a layer."""
    if isinstance(layer, SharedPrefixLayer):
        layer.drop(columns)
    else:
        layer.keys, layer.values = layer.keys[:, :, columns:], layer.values[:, :, columns:]
