"""Caches of transformers models that hold several texts of different lengths.

`JoinedCache` (`constrained.models.batched_cache`) keeps all rows side by side and reads them in one forward pass.
`SingleCache` (`constrained.models.sequential_cache`) keeps one row as the model itself would. `PerRowCache` puts one cache a row
next to each other, and reads them one after the other: for models in which padding would leave traces, and for logits that
are bit-identical to a text alone.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from constrained.models.base import Cache

if TYPE_CHECKING:
    import torch

ForwardFunction = Callable[..., Any]
"""Forward pass of the model: keyword inputs -> logits [rows, columns, V]."""


class HuggingFaceCache(Cache):
    """Rows of a transformers model.

    Args:
        rows: how many.
    """

    def __init__(self, rows: int) -> None:
        self._lengths = [0] * rows

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return list(self._lengths)

    @abstractmethod
    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], device: torch.device
    ) -> torch.Tensor:
        """Reads tokens at the end of each row; logits after the last of each, [rows, V]."""

    @abstractmethod
    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """See `LanguageModel.forward_trees`."""


class PerRowCache(HuggingFaceCache):
    """A cache of its own for each row.

    Args:
        rows: how many.
        make: an empty cache of one row.
    """

    def __init__(self, rows: int, make: Callable[[], HuggingFaceCache]) -> None:
        super().__init__(0)
        self._rows = [make() for _ in range(rows)]

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return [row.lengths[0] for row in self._rows]

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order."""
        kept: list[Any] = []
        for i, row in enumerate(rows):
            # A cache is changed in place by the model, so a second copy of a row needs its own.
            kept.append(self._rows[row].fork([0]) if row in rows[:i] else self._rows[row])
        self._rows = kept

    def fork(self, rows: Sequence[int]) -> Cache:
        """A cache of its own with these rows."""
        twin = copy.copy(self)
        twin._rows = [self._rows[row].fork([0]) for row in rows]  # type: ignore[misc]
        return twin

    def join(self, other: Cache) -> None:
        """Takes the rows of another cache behind its own."""
        assert isinstance(other, PerRowCache)
        self._rows += other._rows

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], device: torch.device
    ) -> torch.Tensor:
        """One forward pass per row."""
        import torch

        return torch.cat(
            [row.forward(run, [ids], device) for row, ids in zip(self._rows, tokens, strict=True)]
        )

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """One forward pass per row."""
        trees = zip(self._rows, tokens, parents, skip, strict=True)
        return [
            row.forward_trees(run, [ids], [before], [start], device)[0] for row, ids, before, start in trees
        ]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps one path of each row."""
        self.keep(rows)  # a copy knows what its original has read last
        for row, path in zip(self._rows, paths, strict=True):
            row.keep_paths([0], [path])
