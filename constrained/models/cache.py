"""Caches of transformers models that hold several texts of different lengths.

Two kinds. `JoinedCache` keeps all rows in one `DynamicCache` and reads them in one forward pass: rows are made
equally wide by padding anywhere, which a boolean table marks and a mask hides, and positions count true tokens.
`SeparateCache` keeps one `DynamicCache` a row and reads them one after the other: for models in which padding would
leave traces, and for logits that are bit-identical to a text alone.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from constrained.models.base import Cache

if TYPE_CHECKING:
    import torch

Run = Callable[..., Any]
"""Forward pass of the model: keyword inputs -> logits [rows, columns, V]."""


class HuggingFaceCache(Cache):
    """Rows of a transformers model.

    Args:
        rows: how many.
        config: the model's configuration: it says which memory each layer wants.
    """

    def __init__(self, rows: int, config: Any) -> None:
        self._config = config
        self._lengths = [0] * rows

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, per row."""
        return list(self._lengths)

    def _new(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._config)

    @abstractmethod
    def read(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        """Reads tokens at the end of each row; logits after the last of each, [rows, V]."""


class SeparateCache(HuggingFaceCache):
    """A `DynamicCache` per row."""

    def __init__(self, rows: int, config: Any) -> None:
        super().__init__(rows, config)
        self._rows = [self._new() for _ in range(rows)]

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order."""
        kept: list[Any] = []
        for i, row in enumerate(rows):
            # A cache is changed in place by the model, so a second copy of a row needs its own.
            kept.append(copy.deepcopy(self._rows[row]) if row in rows[:i] else self._rows[row])
        self._rows = kept
        self._lengths = [self._lengths[row] for row in rows]

    def read(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        """One forward pass per row."""
        import torch

        logits = []
        for row, ids in enumerate(tokens):
            logits.append(read_row(run, ids, self._rows[row], self._lengths[row], device))
            self._lengths[row] += len(ids)
        return torch.cat(logits)


class JoinedCache(HuggingFaceCache):
    """One `DynamicCache` for all rows.

    Invariant: column c of row r holds a true token of that row iff `_valid[r, c]`, and the true columns of a row
    stand in the order of its text. With a single row there is no padding, `_valid` is all true, and no mask is used.
    """

    def __init__(self, rows: int, config: Any) -> None:
        super().__init__(rows, config)
        self._cache: Any = None
        self._valid: torch.Tensor | None = None  # bool [rows, columns], on the device

    def fork(self, rows: Sequence[int]) -> Cache:
        """A cache of its own with these rows. Layers only ever replace their tensors, so nothing is copied twice."""
        twin = copy.copy(self)
        if self._cache is not None:
            twin._cache = copy.copy(self._cache)
            twin._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
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
        columns = self._valid.any(dim=0).nonzero().squeeze(1)
        for layer in self._cache.layers:
            layer.keys = layer.keys.index_select(0, index).index_select(2, columns)
            layer.values = layer.values.index_select(0, index).index_select(2, columns)
        self._valid = self._valid[:, columns]

    def read(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        """First every row alone, then all rows in one forward pass.

        Prompts differ in length, so a pass of them all would mostly read padding; and alone they have the same logits
        in every batch.
        """
        if self._cache is None:
            return self._prefill(run, tokens, device)
        if len(tokens) == 1:
            logits = read_row(run, tokens[0], self._cache, self._lengths[0], device)
            self._extend([len(tokens[0])], len(tokens[0]))
        else:
            logits = self._step(run, tokens, device)
        self._lengths = [length + len(ids) for length, ids in zip(self._lengths, tokens, strict=True)]
        return logits

    def _prefill(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        import torch
        from torch.nn.functional import pad

        caches, logits = [], []
        for ids in tokens:
            caches.append(self._new())
            logits.append(read_row(run, ids, caches[-1], 0, device))
        self._lengths = [len(ids) for ids in tokens]
        width = max(self._lengths)
        self._cache = caches[0]
        if len(caches) > 1:
            for i, layer in enumerate(self._cache.layers):
                rows = [cache.layers[i] for cache in caches]
                layer.keys = torch.cat([pad(r.keys, (0, 0, width - r.keys.shape[2], 0)) for r in rows])
                layer.values = torch.cat([pad(r.values, (0, 0, width - r.values.shape[2], 0)) for r in rows])
        columns = torch.arange(width, device=device)
        self._valid = columns >= width - torch.tensor(self._lengths, device=device).unsqueeze(1)
        return torch.cat(logits)

    def _step(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        import torch

        counts = [len(ids) for ids in tokens]
        width = max(counts)
        padded = [[*ids, *[0] * (width - len(ids))] for ids in tokens]
        start = torch.tensor(self._lengths, device=device).unsqueeze(1)
        self._extend(counts, width)
        assert self._valid is not None
        # A query sees the true columns before the new ones, and of the new ones those up to itself.
        new = torch.ones(width, width, dtype=torch.bool, device=device).tril()
        seen = self._valid.unsqueeze(1).repeat(1, width, 1)
        seen[:, :, -width:] &= new
        # A padding query would see nothing at all when its row is empty: its softmax must not become NaN.
        seen[:, torch.arange(width), torch.arange(-width, 0)] = True
        dtype = self._cache.layers[0].keys.dtype
        # Additive, not boolean: eager attention adds whatever mask it is given.
        mask = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, torch.finfo(dtype).min)
        logits = run(
            every=width > 1,
            input_ids=torch.tensor(padded, device=device),
            position_ids=start + torch.arange(width, device=device),
            attention_mask=mask.unsqueeze(1),
            past_key_values=self._cache,
        )
        last = torch.tensor(counts, device=device) - 1
        return logits[torch.arange(len(tokens), device=device), last]  # type: ignore[no-any-return]

    def _extend(self, counts: list[int], width: int) -> None:
        """Marks `width` new columns, of which each row fills the first `counts[row]`."""
        import torch

        assert self._valid is not None
        device = self._valid.device
        new = torch.arange(width, device=device) < torch.tensor(counts, device=device).unsqueeze(1)
        self._valid = torch.cat([self._valid, new], dim=1)


def read_row(run: Run, ids: Sequence[int], cache: Any, start: int, device: torch.device) -> torch.Tensor:
    """Reads tokens of one text, without padding or mask; logits after the last, [1, V]."""
    import torch

    positions = torch.arange(start, start + len(ids), device=device).unsqueeze(0)
    logits = run(
        input_ids=torch.tensor([list(ids)], device=device), position_ids=positions, past_key_values=cache
    )
    return logits[:, -1]  # type: ignore[no-any-return]
