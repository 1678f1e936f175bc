"""Caches of transformers models for sequences of different lengths.

`SlabCache` (`constrained.models.slab_cache`) reads all rows in one forward pass. `SequentialCache`
(`constrained.models.sequential_cache`) has one row, in the model's own kind of cache. `PerRowCache` has one cache per
row and one forward pass per row: for models that padding would change, and for logits that are bit-identical to those
of a single sequence. `HuggingFaceModel.cache` chooses.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.models.base import Cache
from constrained.models.positions import COLUMNS, Positions

if TYPE_CHECKING:
    import torch

    from constrained.models.upload import PassUpload

ForwardFunction = Callable[..., Any]
"""Forward pass of the model: keyword inputs -> logits [rows, columns, V]."""


class HuggingFaceCache(Cache):
    """A cache of a transformers model."""

    @abstractmethod
    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], upload: PassUpload
    ) -> torch.Tensor:
        """Reads tokens at the end of each row; logits after the last of each, [rows, V]."""

    @abstractmethod
    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        upload: PassUpload,
    ) -> list[torch.Tensor]:
        """See `LanguageModel.forward_trees`."""


class PerRowCache(HuggingFaceCache):
    """One cache per row.

    Args:
        rows: number of rows.
        make: creates an empty cache of one row.
    """

    def __init__(self, rows: int, make: Callable[[], HuggingFaceCache]) -> None:
        self._rows = [make() for _ in range(rows)]

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return [row.lengths[0] for row in self._rows]

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order."""
        caches: list[Any] = []
        for i, row in enumerate(rows):
            # The model changes a cache in place, so a second copy of a row needs a cache of its own.
            caches.append(self._rows[row].fork([0]) if row in rows[:i] else self._rows[row])
        self._rows = caches

    def fork(self, rows: Sequence[int]) -> Cache:
        """An independent cache of these rows."""
        twin = copy.copy(self)
        twin._rows = [self._rows[row].fork([0]) for row in rows]  # type: ignore[misc]
        return twin

    def join(self, other: Cache) -> None:
        """Appends the rows of another cache."""
        assert isinstance(other, PerRowCache)
        self._rows += other._rows

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], upload: PassUpload
    ) -> torch.Tensor:
        """One forward pass per row."""
        import torch

        return torch.cat(
            [row.forward(run, [ids], upload) for row, ids in zip(self._rows, tokens, strict=True)]
        )

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        upload: PassUpload,
    ) -> list[torch.Tensor]:
        """One forward pass per row."""
        trees = zip(self._rows, tokens, parents, skip, strict=True)
        return [
            row.forward_trees(run, [ids], [before], [start], upload)[0] for row, ids, before, start in trees
        ]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps one path of each row."""
        self.keep(rows)  # a copied row still has the tree that its original read last
        for row, path in zip(self._rows, paths, strict=True):
            row.keep_paths([0], [path])


def forward_row(
    run: ForwardFunction,
    ids: Sequence[int],
    cache: Any,
    start: int,
    upload: PassUpload,
    *,
    every: int = 1,
    positions: Positions = COLUMNS,
    shift: int = 0,
) -> torch.Tensor:
    """Reads tokens of one sequence, without padding or mask; logits after the last `every` tokens, [every, V].

    Args:
        run: the model.
        ids: of the tokens.
        cache: what the model takes.
        start: the column of the first token.
        upload: copies ids to where they go.
        every: number of last tokens whose logits are wanted.
        positions: of ids.
        shift: of the first token, see `constrained.models.positions`.
    """
    given, columns = np.array([ids], dtype=np.int64), np.arange(start, start + len(ids))[None]
    found = positions.of(given, columns, [shift])
    inputs, places = upload(given, columns if found is None else found)
    logits = run(every=every, input_ids=inputs, position_ids=places, cache=cache)
    return logits[0, -every:]  # type: ignore[no-any-return]
