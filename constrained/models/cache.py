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

import numpy as np

from constrained.models.base import Cache

if TYPE_CHECKING:
    import torch

Run = Callable[..., Any]
"""Forward pass of the model: keyword inputs -> logits [rows, columns, V]."""

_WASTE, _SPARE = 1.25, 256
"""More columns than this times the longest row, and so many more, are compacted."""


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
    def read_trees(
        self,
        run: Run,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """See `LanguageModel.forward_trees`."""

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

    def join(self, other: Cache) -> None:
        """Takes the rows of another cache behind its own."""
        assert isinstance(other, SeparateCache)
        self._rows += other._rows
        self._lengths += other._lengths

    def read(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        """One forward pass per row."""
        import torch

        logits = []
        for row, ids in enumerate(tokens):
            logits.append(read_row(run, ids, self._rows[row], self._lengths[row], device))
            self._lengths[row] += len(ids)
        return torch.cat(logits)

    def read_trees(
        self,
        run: Run,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """One forward pass per row."""
        return [
            read_tree(run, ids, parents[row], skip[row], self._rows[row], self._lengths[row], device)
            for row, ids in enumerate(tokens)
        ]

    def settle(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps one path of each row."""
        lengths = [self._lengths[row] for row in rows]
        self.keep(rows)
        for cache, length, path in zip(self._rows, lengths, paths, strict=True):
            keep_path(cache, length, path)
        self._lengths = [length + len(path) for length, path in zip(lengths, paths, strict=True)]


class JoinedCache(HuggingFaceCache):
    """One `DynamicCache` for all rows.

    Invariant: column c of row r holds a true token of that row iff `_valid[r, c]`, and the true columns of a row
    stand in the order of its text. Columns that are true in no row are what remains of trees; they are dropped when
    they are many. The columns of a tree are not valid before it is settled. Where all of a single row is valid no mask
    is used.
    """

    def __init__(self, rows: int, config: Any) -> None:
        super().__init__(rows, config)
        self._cache: Any = None
        self._valid: torch.Tensor | None = None  # bool [rows, columns], on the device
        self._pending: list[int] = []  # the first column of each row's tree

    def fork(self, rows: Sequence[int]) -> Cache:
        """A cache of its own with these rows. Layers only ever replace their tensors, so nothing is copied twice.

        What several copies of a single row have in common they hold once.
        """
        from constrained.models.shared import shared

        twin = copy.copy(self)
        if self._cache is None or self._valid is None:
            twin.keep(rows)
            return twin
        twin._cache = copy.copy(self._cache)
        if len(self._lengths) == 1 and len(rows) > 1 and bool(self._valid.all()):
            layers = shared(self._cache, len(rows))
            if layers is not None:
                twin._cache.layers = layers
                twin._lengths = self._lengths * len(rows)
                twin._valid = self._valid.repeat(len(rows), 1)
                return twin
        twin._cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        twin.keep(rows)
        return twin

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order, and drops the columns that only padded the others."""
        import torch

        from constrained.models.shared import select

        self._lengths = [self._lengths[row] for row in rows]
        if self._cache is None or self._valid is None:
            return
        index = torch.tensor(list(rows), dtype=torch.long, device=self._valid.device)
        self._valid = self._valid[index]
        columns = self._valid.any(dim=0).nonzero().squeeze(1)
        for layer in self._cache.layers:
            select(layer, index, columns)
        self._valid = self._valid[:, columns]

    def join(self, other: Cache) -> None:
        """Takes the rows of another cache behind its own; the narrower of the two is padded on the left."""
        import torch
        from torch.nn.functional import pad

        assert isinstance(other, JoinedCache)
        if not other._lengths or other._cache is None or other._valid is None:
            assert not other._lengths, "rows that have read nothing cannot be joined to others"
            return
        if not self._lengths or self._cache is None or self._valid is None:
            assert not self._lengths, "rows that have read nothing cannot take in others"
            self._cache, self._valid, self._lengths = other._cache, other._valid, other._lengths
            return
        width = max(self._valid.shape[1], other._valid.shape[1])
        for mine, theirs in zip(self._cache.layers, other._cache.layers, strict=True):
            for name in ("keys", "values"):
                both = (getattr(mine, name), getattr(theirs, name))
                wide = [pad(part, (0, 0, width - part.shape[2], 0)) for part in both]
                setattr(mine, name, torch.cat(wide))
        valid = [pad(part, (width - part.shape[1], 0)) for part in (self._valid, other._valid)]
        self._valid = torch.cat(valid)
        self._lengths = self._lengths + other._lengths

    def read(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        """First every row alone, then all rows in one forward pass.

        Prompts differ in length, so a pass of them all would mostly read padding; and alone they have the same logits
        in every batch.
        """
        if self._cache is None:
            return self._prefill(run, tokens, device)
        if len(tokens) == 1:
            self._compact()
            logits = read_row(run, tokens[0], self._cache, self._lengths[0], device)
            self._extend([len(tokens[0])], len(tokens[0]))
        else:
            logits = self._step(run, tokens, device)
        self._lengths = [length + len(ids) for length, ids in zip(self._lengths, tokens, strict=True)]
        return logits

    def read_trees(
        self,
        run: Run,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """As `read`: at first every row alone, then all rows in one forward pass."""
        import torch

        if self._cache is None:
            caches = [self._new() for _ in tokens]
            logits = [
                read_tree(run, ids, parents[row], skip[row], caches[row], 0, device)
                for row, ids in enumerate(tokens)
            ]
            # The columns stand at the right: those of the shorter rows begin later.
            width = self._join(caches, [len(ids) for ids in tokens], device)
            self._pending = [width - len(ids) for ids in tokens]
            self._valid = torch.zeros((len(tokens), width), dtype=torch.bool, device=device)
            return logits
        assert self._valid is not None
        width = max(map(len, tokens))
        begin = self._valid.shape[1]
        start = torch.tensor(self._lengths, device=device).unsqueeze(1)
        depths, new = zip(*(branches(row, width) for row in parents), strict=True)
        seen = torch.cat([self._valid.unsqueeze(1).expand(-1, width, -1), torch.stack(new).to(device)], dim=2)
        outputs = run(
            every=True,
            input_ids=torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in tokens], device=device),
            position_ids=start + torch.tensor(depths, device=device),
            attention_mask=additive(seen),
            past_key_values=self._cache,
        )
        self._pending = [begin] * len(tokens)
        self._valid = torch.nn.functional.pad(self._valid, (0, width))
        return [outputs[row, skip[row] : len(ids)] for row, ids in enumerate(tokens)]

    def settle(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Marks one path of each row as valid."""
        import torch

        assert self._valid is not None
        begins = [self._pending[row] for row in rows]
        self._lengths = [self._lengths[row] + len(path) for row, path in zip(rows, paths, strict=True)]
        if list(rows) != list(range(len(self._valid))):
            index = torch.tensor(list(rows), dtype=torch.long, device=self._valid.device)
            self._valid = self._valid[index]
            for layer in self._cache.layers:
                layer.keys = layer.keys.index_select(0, index)
                layer.values = layer.values.index_select(0, index)
        marks = np.zeros(self._valid.shape, dtype=np.bool_)
        for row, path in enumerate(paths):
            marks[row, [begins[row] + i for i in path]] = True
        self._valid = self._valid | torch.from_numpy(marks).to(self._valid.device)
        if self._valid.shape[1] > _WASTE * max(self._lengths) + _SPARE:
            self._compact()

    def _compact(self) -> None:
        """Drops the columns that are true in no row."""
        assert self._valid is not None
        if self._valid.shape[1] > max(self._lengths) and not bool(self._valid.any(dim=0).all()):
            self.keep(range(len(self._lengths)))

    def _prefill(self, run: Run, tokens: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
        import torch

        caches, logits = [], []
        for ids in tokens:
            caches.append(self._new())
            logits.append(read_row(run, ids, caches[-1], 0, device))
        self._lengths = [len(ids) for ids in tokens]
        width = self._join(caches, self._lengths, device)
        columns = torch.arange(width, device=device)
        self._valid = columns >= width - torch.tensor(self._lengths, device=device).unsqueeze(1)
        return torch.cat(logits)

    def _join(self, caches: list[Any], lengths: Sequence[int], device: torch.device) -> int:
        """Puts caches of single rows side by side, padded at the left; the number of columns."""
        import torch
        from torch.nn.functional import pad

        width = max(lengths)
        self._cache = caches[0]
        if len(caches) > 1:
            for i, layer in enumerate(self._cache.layers):
                rows = [cache.layers[i] for cache in caches]
                layer.keys = torch.cat([pad(r.keys, (0, 0, width - r.keys.shape[2], 0)) for r in rows])
                layer.values = torch.cat([pad(r.values, (0, 0, width - r.values.shape[2], 0)) for r in rows])
        return width

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
        logits = run(
            every=width > 1,
            input_ids=torch.tensor(padded, device=device),
            position_ids=start + torch.arange(width, device=device),
            attention_mask=additive(seen),
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


def read_tree(
    run: Run,
    ids: Sequence[int],
    parents: Sequence[int],
    skip: int,
    cache: Any,
    start: int,
    device: torch.device,
) -> torch.Tensor:
    """Reads a tree of tokens of one text; logits after those that are not skipped, [tokens, V].

    A tree that is a chain is read as `read_row` reads it.
    """
    import torch

    chain = all(parent == i - 1 for i, parent in enumerate(parents))
    inputs: dict[str, Any] = {"input_ids": torch.tensor([list(ids)], device=device)}
    if chain:
        depths = list(range(len(ids)))
    else:
        depths, new = branches(parents, len(ids))
        seen = torch.cat([torch.ones((len(ids), start), dtype=torch.bool), new], dim=1).to(device)
        inputs["attention_mask"] = additive(seen.unsqueeze(0))
    positions = start + torch.tensor([depths], device=device)
    logits = run(**inputs, every=len(ids) - skip, position_ids=positions, past_key_values=cache)
    return logits[0, logits.shape[1] - (len(ids) - skip) :]  # type: ignore[no-any-return]


def keep_path(cache: Any, length: int, path: Sequence[int]) -> None:
    """Keeps the first columns of a single row, and of those after them the ones on a path."""
    import torch

    for layer in cache.layers:
        columns = torch.tensor([*range(length), *(length + i for i in path)], device=layer.keys.device)
        if len(columns) < layer.keys.shape[2]:
            layer.keys = layer.keys.index_select(2, columns)
            layer.values = layer.values.index_select(2, columns)


def branches(parents: Sequence[int], width: int) -> tuple[list[int], torch.Tensor]:
    """Depth of each token of a tree, and which of its tokens each sees: bool [width, width].

    Tokens that only pad see themselves, so that no softmax is over nothing.
    """
    import torch

    depths = [0] * width
    seen = np.eye(width, dtype=np.bool_)
    for i, parent in enumerate(parents):
        if parent >= 0:
            depths[i] = depths[parent] + 1
            seen[i] |= seen[parent]
    return depths, torch.from_numpy(seen)


def additive(seen: torch.Tensor) -> torch.Tensor:
    """A mask to be added to attention scores, [rows, 1, queries, columns], out of bool [rows, queries, columns].

    Additive, not boolean: eager attention adds whatever mask it is given.
    """
    import torch

    # -65504 is a number in every dtype; after a softmax it is 0, as scores are far smaller.
    least = torch.finfo(torch.float16).min
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, least).unsqueeze(1)
