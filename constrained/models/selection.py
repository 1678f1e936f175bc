"""`Selection`: which rows and columns of a KV cache stay, for layers on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.models.upload import upload

if TYPE_CHECKING:
    import torch


class Selection:
    """Rows and columns to keep. Layers of one model may be on several devices: the indices are copied once to each.

    Attributes:
        rows: in their new order; None: all of them, as they are.
        columns: ascending; None: all of them.
    """

    def __init__(self, rows: Sequence[int] | None, columns: NDArray[np.intp], width: int) -> None:
        """A selection from the rows and the `width` columns of a cache."""
        self.rows = None if rows is None else np.array(rows, dtype=np.int64)
        self.columns = None if len(columns) == width else columns.astype(np.int64)
        self._width = width
        self._copies: dict[torch.device, list[torch.Tensor | None]] = {}
        self._later: dict[int, Selection] = {}

    def indices(self, device: torch.device) -> list[torch.Tensor | None]:
        """`rows` and `columns` on a device, int64."""
        if device not in self._copies:
            given = [self.rows, self.columns]
            copied = iter(upload(device, *(one for one in given if one is not None)))
            self._copies[device] = [None if one is None else next(copied) for one in given]
        return self._copies[device]

    def after(self, common: int) -> Selection:
        """The selection among the columns from `common` on; those before them all stay."""
        if not common:
            return self
        if common not in self._later:
            columns = np.arange(self._width) if self.columns is None else self.columns
            rows = None if self.rows is None else self.rows.tolist()
            self._later[common] = Selection(rows, columns[common:] - common, self._width - common)
        return self._later[common]

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """What stays of a tensor [rows, heads, columns, size]."""
        rows, columns = self.indices(tensor.device)
        if rows is not None:
            tensor = tensor.index_select(0, rows)
        return tensor if columns is None else tensor.index_select(2, columns)
