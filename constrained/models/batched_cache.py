"""A cache whose rows, of any lengths and with draft trees, are read in one forward pass.

Rows have equal width by padding, which may stand anywhere: a boolean table marks it and the attention mask hides it.
Positions count tokens without padding. Layers with a sliding window store all columns; the mask limits what queries see.

The bookkeeping is on the host. A pass copies what it needs of it to the device in one piece, and waits for nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.models.attention_masks import AttentionLayout, is_chain, make_attention_masks, tree_attention
from constrained.models.base import Cache
from constrained.models.cache import ForwardFunction, HuggingFaceCache
from constrained.models.selection import Selection

if TYPE_CHECKING:
    import torch

    from constrained.models.upload import PassUpload

_WASTE, _SPARE = 1.25, 256
"""Columns are compacted above `_WASTE` times the longest row plus `_SPARE`."""

_BEYOND = 64
"""Columns beyond its window that a layer stores before they are dropped."""


class BatchedCache(HuggingFaceCache):
    """One transformers cache for all rows.

    Invariant: column c of row r holds a token of that row iff `_valid[r, c]`, and the valid columns of a row are in the
    order of its tokens. Columns that are valid in no row are left over from draft trees and are dropped when there are
    many. The columns of a draft tree become valid in `keep_paths`. Layers of a kind have dropped their first
    `_gone[kind]` columns, which none of their later queries sees. A single row without invalid or dropped columns needs
    no mask.
    """

    def __init__(self, rows: int, layout: AttentionLayout) -> None:
        """Creates an empty cache.

        Args:
            rows: number of rows.
            layout: the model's attention layers.
        """
        super().__init__(rows)
        self._layout = layout
        self._cache: Any = None
        # Both are replaced, never changed: copies share them.
        self._valid: NDArray[np.bool_] | None = None  # [rows, columns]
        self._gone = dict.fromkeys(layout.windows, 0)
        self._pending: list[int] = []  # the first column of each row's tree

    def fork(self, rows: Sequence[int]) -> Cache:
        """An independent cache of these rows. Layers replace their tensors and never change them, so copies share them.

        Copies of a single row store their common prefix once.
        """
        from constrained.models.shared_prefix import share_prefix

        twin = copy.copy(self)
        if self._cache is None or self._valid is None:
            twin.keep(rows)
            return twin
        twin._cache = copy.copy(self._cache)
        if len(self._lengths) == 1 and len(rows) > 1 and self._valid.all():
            layers = share_prefix(self._cache, len(rows))
            if layers is not None:
                twin._cache.layers = layers
                twin._lengths = self._lengths * len(rows)
                twin._valid = self._valid.repeat(len(rows), axis=0)
                return twin
        twin._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        if list(rows) != list(range(len(self._lengths))):
            twin.keep(rows)
        return twin

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order, and drops the columns that only padded the others."""
        self._lengths = [self._lengths[row] for row in rows]
        if self._cache is None or self._valid is None:
            return
        self._select(rows, np.flatnonzero(self._valid[list(rows)].any(axis=0)))

    def join(self, *others: Cache) -> None:
        """Appends the rows of other caches, in one copy; narrower ones are padded on the left."""
        from constrained.models.shared_prefix import append_rows, column_count

        fresh: list[BatchedCache] = []
        for other in others:
            assert isinstance(other, BatchedCache)
            if other._cache is None or other._valid is None:
                assert not other._lengths, "rows that have read nothing cannot be joined to others"
            else:
                fresh.append(other)
        if fresh and (self._cache is None or self._valid is None):
            assert not self._lengths, "rows that have read nothing cannot take in others"
            self.__dict__.update(fresh.pop(0).__dict__)
        if not fresh:
            return
        tables = [one._valid for one in (self, *fresh) if one._valid is not None]
        width = max(table.shape[1] for table in tables)
        theirs = [[layer for _, layer in one._held()] for one in fresh]
        for i, (kind, layer) in enumerate(self._held()):
            twins = [layers[i] for layers in theirs]
            # Columns that one cache has dropped are padding in the other, or out of its layers' sight.
            gone = width - max(map(column_count, (layer, *twins)))
            append_rows(layer, twins, width - gone)
            self._gone = self._gone | {kind: gone}
        self._valid = np.concatenate(
            [np.pad(table, ((0, 0), (width - table.shape[1], 0))) for table in tables]
        )
        for one in fresh:
            self._lengths = self._lengths + one._lengths

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], upload: PassUpload
    ) -> torch.Tensor:
        """The first call reads each row in its own forward pass, later calls read all rows in one.

        Prompts differ in length, so one pass for all would mostly read padding; read alone, a prompt has equal logits
        in every batch.
        """
        import torch

        if self._cache is None:
            caches = [self._new() for _ in tokens]
            firsts = [forward_row(run, ids, caches[row], 0, upload) for row, ids in enumerate(tokens)]
            self._lengths = [len(ids) for ids in tokens]
            width = self._join(caches, self._lengths)
            self._valid = np.arange(width) >= width - np.array(self._lengths)[:, None]
            return torch.cat(firsts)
        self._tidy(alone=len(tokens) == 1)
        counts = [len(ids) for ids in tokens]
        logits: torch.Tensor
        if len(tokens) == 1 and self._whole():
            logits = forward_row(run, tokens[0], self._cache, self._lengths[0], upload)
        else:
            width = max(counts)  # padding comes after all tokens
            depths = np.broadcast_to(np.arange(width), (len(tokens), width))
            last = np.arange(len(tokens)) * width + np.array(counts) - 1
            logits = self._look(run, tokens, depths, None, upload, last=last)
        assert self._valid is not None
        fresh = np.arange(max(counts)) < np.array(counts)[:, None]
        self._valid = np.concatenate([self._valid, fresh], axis=1)
        self._lengths = [length + count for length, count in zip(self._lengths, counts, strict=True)]
        return logits

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        upload: PassUpload,
    ) -> list[torch.Tensor]:
        """As `forward`: the first call reads each row in its own forward pass, later calls read all rows in one."""
        if self._cache is None:
            trees = zip(tokens, parents, skip, strict=True)
            caches, logits = zip(*(self._first(run, *tree, upload) for tree in trees), strict=True)
            # Rows are aligned at the right: shorter rows start at later columns.
            width = self._join(list(caches), [len(ids) for ids in tokens])
            self._pending = [width - len(ids) for ids in tokens]
            return list(logits)
        self._tidy()
        assert self._valid is not None
        width = max(map(len, tokens))
        depths, new = zip(*(tree_attention(row, width) for row in parents), strict=True)
        outputs = self._look(run, tokens, np.array(depths), np.stack(new), upload, every=True)
        self._pending = [self._valid.shape[1]] * len(tokens)
        unkept = np.zeros((len(tokens), width), dtype=np.bool_)
        self._valid = np.concatenate([self._valid, unkept], axis=1)
        return [outputs[row, skip[row] : len(ids)] for row, ids in enumerate(tokens)]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Marks one path of each row as valid."""
        assert self._valid is not None
        begins = [self._pending[row] for row in rows]
        self._lengths = [self._lengths[row] + len(path) for row, path in zip(rows, paths, strict=True)]
        if list(rows) != list(range(len(self._valid))):
            self._select(rows, np.arange(self._valid.shape[1]))
        valid = self._valid.copy()
        for row, path in enumerate(paths):
            valid[row, [begins[row] + i for i in path]] = True
        self._valid = valid

    def _new(self) -> Any:
        from transformers import DynamicCache

        from constrained.models.cache_layers import EMPTY_LAYER
        from constrained.models.growing_layer import GrowingLayer

        cache = DynamicCache()
        cache.layers = [EMPTY_LAYER() if kind is None else GrowingLayer() for kind in self._layout.kinds]
        return cache

    def _held(self) -> Iterator[tuple[str, Any]]:
        """The layers that have keys and values, with their kinds."""
        for kind, layer in zip(self._layout.kinds, self._cache.layers, strict=True):
            if kind is not None and layer.is_initialized:
                yield kind, layer

    def _first(
        self,
        run: ForwardFunction,
        ids: Sequence[int],
        parents: Sequence[int],
        skip: int,
        upload: PassUpload,
    ) -> tuple[Any, torch.Tensor]:
        """Reads a tree into an empty row: its cache, and logits after the tokens that are not skipped."""
        cache, wanted = self._new(), len(ids) - skip
        if is_chain(parents):
            logits = forward_row(run, ids, cache, 0, upload, every=wanted)
        else:
            depths, new = tree_attention(parents, len(ids))
            alone = BatchedCache(1, self._layout)
            alone._cache, alone._valid = cache, np.zeros((1, 0), dtype=np.bool_)
            logits = alone._look(run, [ids], np.array([depths]), new[None], upload, every=wanted)[0]
        return cache, logits[len(logits) - wanted :]

    def _look(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        depths: NDArray[np.int64],
        new: NDArray[np.bool_] | None,
        upload: PassUpload,
        *,
        every: bool | int = True,
        last: NDArray[np.int64] | None = None,
    ) -> Any:
        """One forward pass of all rows: logits [rows, width, V], of the last columns, or [rows, V].

        Args:
            run: the model.
            tokens: ids, by row.
            depths: of each token and each padding column: its position relative to the row's end, [rows, width].
            new: which of the new columns each query sees, [rows, width, width]; None: those up to itself.
            upload: copies ids to where they go.
            every: as in `ForwardFunction`.
            last: the query of each row whose logits are wanted, counted through all rows; None: `every`.
        """
        import torch

        assert self._valid is not None
        width = depths.shape[1]
        ids = np.zeros(depths.shape, dtype=np.int64)
        for row, given in zip(ids, tokens, strict=True):
            row[: len(given)] = given
        ends = np.array(self._lengths, dtype=np.int64)[:, None]
        wanted = np.empty(0, dtype=np.int64) if last is None or width == 1 else last
        inputs, queries, begins, picked, valid, *trees = upload(
            ids, ends + depths, ends, wanted, self._valid, *(() if new is None else (new,))
        )
        if trees:
            (sights,) = trees
        else:
            sights = torch.ones((1, width, width), dtype=torch.bool, device=upload.device).tril()
            sights = sights.expand(len(ids), -1, -1)
        logits = run(
            every=every,
            input_ids=inputs,
            position_ids=queries,
            attention_mask=make_attention_masks(self._layout, valid, sights, queries, begins, self._gone),
            cache=self._cache,
        )
        if last is None:
            return logits
        return logits[:, -1] if width == 1 else logits.flatten(0, 1).index_select(0, picked)

    def _places(self) -> NDArray[np.int64]:
        """Positions of the valid columns, [rows, columns]; counted from the end, as first columns may be dropped."""
        assert self._valid is not None
        after = self._valid[:, ::-1].cumsum(axis=1)[:, ::-1]
        places: NDArray[np.int64] = np.array(self._lengths)[:, None] - after
        return places

    def _whole(self) -> bool:
        """Whether the columns of a single row are its tokens, all of them and no others: the model then knows where each stands."""
        assert self._valid is not None
        columns = self._valid.shape[1]
        return columns == self._lengths[0] and not any(self._gone.values()) and bool(self._valid.all())

    def _select(self, rows: Sequence[int], columns: NDArray[np.intp]) -> None:
        """Keeps rows and columns of all layers and of the table."""
        from constrained.models.shared_prefix import select_columns

        assert self._valid is not None
        kept = None if list(rows) == list(range(len(self._valid))) else rows
        parts = {
            kind: Selection(kept, columns[columns >= gone] - gone, self._valid.shape[1] - gone)
            for kind, gone in self._gone.items()
        }
        for kind, layer in self._held():
            select_columns(layer, parts[kind])
        self._gone = {kind: int((columns < gone).sum()) for kind, gone in self._gone.items()}
        self._valid = self._valid[list(rows)][:, columns]

    def _tidy(self, *, alone: bool = False) -> None:
        """Drops columns that are valid in no row if there are many (for a single row: any), and those out of sight."""
        from constrained.models.shared_prefix import drop_columns

        assert self._valid is not None
        width, used = self._valid.shape[1], int(self._valid.sum(axis=1).max())
        if width > (used if alone else _WASTE * used + _SPARE) and not self._valid.any(axis=0).all():
            self.keep(range(len(self._lengths)))
        bounds = {
            kind: sight
            for kind, sight in self._layout.bounds.items()
            if self._valid.shape[1] - self._gone[kind] > (sight.bound or 0) + _BEYOND
        }
        for kind, sight in bounds.items():
            ends = np.array(self._lengths)[:, None]
            needed = (self._valid & (self._places() >= sight.first(ends))).any(axis=0)
            first = int(needed.argmax()) if needed.any() else len(needed)
            first = max(first, self._gone[kind])
            for other, layer in self._held():
                if other == kind:
                    drop_columns(layer, first - self._gone[kind])
            self._gone = self._gone | {kind: first}
        common = min(self._gone.values()) if bounds else 0
        if common:  # no layer holds these
            self._gone = {kind: gone - common for kind, gone in self._gone.items()}
            self._valid = self._valid[:, common:]

    def _join(self, caches: list[Any], lengths: Sequence[int]) -> int:
        """Joins caches of single rows, padded on the left; returns the number of columns, none of them valid yet."""
        import torch
        from torch.nn.functional import pad

        width = max(lengths)
        self._cache = caches[0]
        self._valid = np.zeros((len(lengths), width), dtype=np.bool_)
        if len(caches) > 1:
            for i, layer in enumerate(self._cache.layers):
                rows = [cache.layers[i] for cache in caches]
                if self._layout.kinds[i] is None or not layer.is_initialized:
                    continue
                layer.keys = torch.cat([pad(r.keys, (0, 0, width - r.keys.shape[2], 0)) for r in rows])
                layer.values = torch.cat([pad(r.values, (0, 0, width - r.values.shape[2], 0)) for r in rows])
        return width


def forward_row(
    run: ForwardFunction, ids: Sequence[int], cache: Any, start: int, upload: PassUpload, *, every: int = 1
) -> torch.Tensor:
    """Reads tokens of one sequence, without padding or mask; logits after the last `every` tokens, [every, V]."""
    import torch

    (inputs,) = upload(np.array([ids], dtype=np.int64))
    logits = run(
        every=every,
        input_ids=inputs,
        position_ids=torch.arange(start, start + len(ids), device=upload.device).unsqueeze(0),
        cache=cache,
    )
    return logits[0, -every:]  # type: ignore[no-any-return]
