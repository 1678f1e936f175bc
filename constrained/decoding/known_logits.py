"""`KnownLogits`: the logits after prefixes that the model has read, within a bound of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 256 << 20
"""Default bound: 512 prefixes of a vocabulary of 131,072 tokens."""

_ENTRY_BYTES = 200  # of the key, the array's header and the table, besides the tokens and the logits


class KnownLogits:
    """Logits by prefix. When the memory is full, the first prefixes stay: short ones, which are met most often.

    Attributes:
        max_bytes: memory at most.
        bytes: memory in use.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._rows: dict[tuple[int, ...], NDArray[np.floating[Any]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, prefix: Sequence[int]) -> NDArray[np.floating[Any]] | None:
        """The logits after a prefix, floating [V]; None if they are not known."""
        return self._rows.get(tuple(prefix))

    def has_room(self, prefix: Sequence[int], width: int) -> bool:
        """Whether `add` would keep `width` float32 logits after a prefix."""
        return self.bytes + 4 * width + 8 * len(prefix) + _ENTRY_BYTES <= self.max_bytes

    def add(self, prefix: Sequence[int], logits: NDArray[np.floating[Any]]) -> None:
        """Keeps a copy of the logits after a prefix, float [V], if there is room for them."""
        size = logits.nbytes + 8 * len(prefix) + _ENTRY_BYTES
        key = tuple(prefix)
        if key not in self._rows and self.bytes + size <= self.max_bytes:
            self._rows[key] = logits.copy()
            self.bytes += size
