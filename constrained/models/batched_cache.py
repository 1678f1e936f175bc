"""A cache whose rows, of any lengths and with draft trees, are read in one forward pass.

Rows have equal width by padding, which may stand anywhere: a boolean table marks it and the attention mask hides it.
Positions count tokens without padding. Layers with a sliding window store all columns; the mask limits what queries see.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.models.attention_masks import AttentionLayout, is_chain, make_attention_masks, tree_attention
from constrained.models.base import Cache
from constrained.models.cache import ForwardFunction, HuggingFaceCache

if TYPE_CHECKING:
    import torch

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
        self._valid: torch.Tensor | None = None  # bool [rows, columns], on the device
        self._pending: list[int] = []  # the first column of each row's tree
        self._gone = dict.fromkeys(layout.windows, 0)  # replaced, never changed: copies share it

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
        if len(self._lengths) == 1 and len(rows) > 1 and bool(self._valid.all()):
            layers = share_prefix(self._cache, len(rows))
            if layers is not None:
                twin._cache.layers = layers
                twin._lengths = self._lengths * len(rows)
                twin._valid = self._valid.repeat(len(rows), 1)
                return twin
        twin._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        if list(rows) != list(range(len(self._lengths))):
            twin.keep(rows)
        return twin

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order, and drops the columns that only padded the others."""
        import torch

        self._lengths = [self._lengths[row] for row in rows]
        if self._cache is None or self._valid is None:
            return
        index = torch.tensor(list(rows), dtype=torch.long, device=self._valid.device)
        self._valid = self._valid[index]
        self._select(index, self._valid.any(dim=0).nonzero().squeeze(1))

    def join(self, *others: Cache) -> None:
        """Appends the rows of other caches, in one copy; narrower ones are padded on the left."""
        import torch
        from torch.nn.functional import pad

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
        self._valid = torch.cat([pad(table, (width - table.shape[1], 0)) for table in tables])
        for one in fresh:
            self._lengths = self._lengths + one._lengths

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], device: torch.device
    ) -> torch.Tensor:
        """The first call reads each row in its own forward pass, later calls read all rows in one.

        Prompts differ in length, so one pass for all would mostly read padding; read alone, a prompt has equal logits
        in every batch.
        """
        import torch

        if self._cache is None:
            caches = [self._new() for _ in tokens]
            firsts = [forward_row(run, ids, caches[row], 0, device) for row, ids in enumerate(tokens)]
            self._join(caches, [len(ids) for ids in tokens], device)
            self._lengths = [len(ids) for ids in tokens]
            columns = torch.arange(self._valid.shape[1], device=device)  # type: ignore[union-attr]
            self._valid = columns >= len(columns) - torch.tensor(self._lengths, device=device).unsqueeze(1)
            return torch.cat(firsts)
        self._tidy(alone=len(tokens) == 1)
        counts = [len(ids) for ids in tokens]
        logits: torch.Tensor
        if len(tokens) == 1 and not any(self._gone.values()):
            logits = forward_row(run, tokens[0], self._cache, self._lengths[0], device)
        else:
            width = max(counts)
            # A query sees the new columns up to itself; padding comes after all tokens.
            new = torch.ones(len(tokens), width, width, dtype=torch.bool, device=device).tril()
            depths = [list(range(width))] * len(tokens)
            whole = self._look(run, tokens, depths, new, every=width > 1)
            last = torch.tensor(counts, device=device) - 1
            logits = whole[torch.arange(len(tokens), device=device), last]
        assert self._valid is not None
        columns = torch.arange(max(counts), device=device)
        self._valid = torch.cat(
            [self._valid, columns < torch.tensor(counts, device=device).unsqueeze(1)], dim=1
        )
        self._lengths = [length + count for length, count in zip(self._lengths, counts, strict=True)]
        return logits

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """As `forward`: the first call reads each row in its own forward pass, later calls read all rows in one."""
        import torch
        from torch.nn.functional import pad

        if self._cache is None:
            trees = zip(tokens, parents, skip, strict=True)
            caches, logits = zip(*(self._first(run, *tree, device) for tree in trees), strict=True)
            # Rows are aligned at the right: shorter rows start at later columns.
            width = self._join(list(caches), [len(ids) for ids in tokens], device)
            self._pending = [width - len(ids) for ids in tokens]
            return list(logits)
        self._tidy()
        assert self._valid is not None
        width = max(map(len, tokens))
        depths, new = zip(*(tree_attention(row, width) for row in parents), strict=True)
        outputs = self._look(run, tokens, depths, torch.stack(new).to(device), every=True)
        self._pending = [self._valid.shape[1]] * len(tokens)
        self._valid = pad(self._valid, (0, width))
        return [outputs[row, skip[row] : len(ids)] for row, ids in enumerate(tokens)]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Marks one path of each row as valid."""
        import torch

        assert self._valid is not None
        begins = [self._pending[row] for row in rows]
        self._lengths = [self._lengths[row] + len(path) for row, path in zip(rows, paths, strict=True)]
        if list(rows) != list(range(len(self._valid))):
            index = torch.tensor(list(rows), dtype=torch.long, device=self._valid.device)
            self._valid = self._valid[index]
            self._select(index, torch.arange(self._valid.shape[1], device=index.device))
        marks = np.zeros(self._valid.shape, dtype=np.bool_)
        for row, path in enumerate(paths):
            marks[row, [begins[row] + i for i in path]] = True
        self._valid = self._valid | torch.from_numpy(marks).to(self._valid.device)

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
        device: torch.device,
    ) -> tuple[Any, torch.Tensor]:
        """Reads a tree into an empty row: its cache, and logits after the tokens that are not skipped."""
        import torch

        cache, wanted = self._new(), len(ids) - skip
        if is_chain(parents):
            logits = forward_row(run, ids, cache, 0, device, every=wanted)
        else:
            depths, new = tree_attention(parents, len(ids))
            alone = BatchedCache(1, self._layout)
            alone._cache, alone._valid = cache, torch.zeros((1, 0), dtype=torch.bool, device=device)
            logits = alone._look(run, [ids], [depths], new.unsqueeze(0).to(device), every=wanted)[0]
        return cache, logits[len(logits) - wanted :]

    def _look(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        depths: Sequence[Sequence[int]],
        new: torch.Tensor,
        *,
        every: bool | int,
    ) -> Any:
        """One forward pass of all rows: logits [rows, width, V], or of the last columns.

        Args:
            run: the model.
            tokens: ids, by row.
            depths: of each token and each padding column: its position relative to the row's end.
            new: which of the new columns each query sees, bool [rows, width, width].
            every: as in `ForwardFunction`.
        """
        import torch

        assert self._valid is not None
        device, width = self._valid.device, new.shape[1]
        seen = torch.cat([self._valid.unsqueeze(1).expand(-1, width, -1), new], dim=2)
        queries = self._ends() + torch.tensor(depths, device=device)
        places = torch.cat([self._places(), queries], dim=1) if self._layout.bounds else queries
        return run(
            every=every,
            input_ids=torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in tokens], device=device),
            position_ids=queries,
            attention_mask=make_attention_masks(self._layout, seen, queries, places, self._gone),
            past_key_values=self._cache,
        )

    def _ends(self) -> torch.Tensor:
        """The position after each row, int [rows, 1]."""
        import torch

        assert self._valid is not None
        return torch.tensor(self._lengths, device=self._valid.device).unsqueeze(1)

    def _places(self) -> torch.Tensor:
        """Positions of the valid columns, int [rows, columns]; counted from the end, as first columns may be dropped."""
        assert self._valid is not None
        after = self._valid.flip(1).cumsum(dim=1).flip(1)
        return self._ends() - after

    def _select(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """Keeps rows of all layers, and columns of all layers and of the table; its rows were kept before."""
        from constrained.models.shared_prefix import select_columns

        assert self._valid is not None
        for kind, layer in self._held():
            gone = self._gone[kind]
            select_columns(layer, rows, columns[columns >= gone] - gone if gone else columns)
        self._gone = {kind: int((columns < gone).sum()) if gone else 0 for kind, gone in self._gone.items()}
        self._valid = self._valid[:, columns]

    def _tidy(self, *, alone: bool = False) -> None:
        """Drops columns that are valid in no row if there are many (for a single row: any), and those out of sight."""
        from constrained.models.shared_prefix import drop_columns

        assert self._valid is not None
        width, longest = self._valid.shape[1], max(self._lengths)
        used = min(longest, width)
        if width > (used if alone else _WASTE * used + _SPARE) and not bool(self._valid.any(dim=0).all()):
            self.keep(range(len(self._lengths)))
        bounds = {
            kind: sight
            for kind, sight in self._layout.bounds.items()
            if self._valid.shape[1] - self._gone[kind] > (sight.bound or 0) + _BEYOND
        }
        for kind, sight in bounds.items():
            needed = (self._valid & (self._places() >= sight.first(self._ends()))).any(dim=0)
            first = int(needed.int().argmax()) if bool(needed.any()) else len(needed)
            first = max(first, self._gone[kind])
            for other, layer in self._held():
                if other == kind:
                    drop_columns(layer, first - self._gone[kind])
            self._gone = self._gone | {kind: first}
        common = min(self._gone.values()) if bounds else 0
        if common:  # no layer holds these
            self._gone = {kind: gone - common for kind, gone in self._gone.items()}
            self._valid = self._valid[:, common:]

    def _join(self, caches: list[Any], lengths: Sequence[int], device: torch.device) -> int:
        """Joins caches of single rows, padded on the left; returns the number of columns, none of them valid yet."""
        import torch
        from torch.nn.functional import pad

        width = max(lengths)
        self._cache = caches[0]
        self._valid = torch.zeros((len(lengths), width), dtype=torch.bool, device=device)
        if len(caches) > 1:
            for i, layer in enumerate(self._cache.layers):
                rows = [cache.layers[i] for cache in caches]
                if self._layout.kinds[i] is None or not layer.is_initialized:
                    continue
                layer.keys = torch.cat([pad(r.keys, (0, 0, width - r.keys.shape[2], 0)) for r in rows])
                layer.values = torch.cat([pad(r.values, (0, 0, width - r.values.shape[2], 0)) for r in rows])
        return width


def forward_row(
    run: ForwardFunction, ids: Sequence[int], cache: Any, start: int, device: torch.device, *, every: int = 1
) -> torch.Tensor:
    """Reads tokens of one sequence, without padding or mask; logits after the last `every` tokens, [every, V]."""
    import torch

    positions = torch.arange(start, start + len(ids), device=device).unsqueeze(0)
    logits = run(
        every=every,
        input_ids=torch.tensor([list(ids)], device=device),
        position_ids=positions,
        past_key_values=cache,
    )
    return logits[0, -every:]  # type: ignore[no-any-return]
