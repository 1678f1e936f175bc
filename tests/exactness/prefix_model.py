"""A model whose logits are a function of the completion so far; it reads draft trees, too."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from constrained.models import Cache, LanguageModel
from constrained.vocabulary import Vocabulary


class Rows(Cache):
    """The tokens of each row."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows
        self.trees: list[list[int]] = []

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.rows]

    def keep(self, rows: Sequence[int]) -> None:
        self.rows = [list(self.rows[row]) for row in rows]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        trees = [self.trees[row] for row in rows]
        self.keep(rows)
        for row, tree, path in zip(self.rows, trees, paths, strict=True):
            row += [tree[i] for i in path]

    def fork(self, rows: Sequence[int]) -> Cache:
        twin = copy.deepcopy(self)
        twin.keep(rows)
        return twin

    def join(self, other: Cache) -> None:
        assert isinstance(other, Rows)
        self.rows += other.rows


class PrefixModel(LanguageModel):
    """Tokens `pieces`, and after them `ends` ids of the end. Its prompt is one token, the first end.

    `reads` counts the rows of all forward passes.
    """

    no_trees = None

    def __init__(self, pieces: Sequence[bytes], ends: int = 1) -> None:
        self.pieces = tuple(pieces)
        self.ends = [len(pieces) + i for i in range(ends)]
        self.vocabulary = Vocabulary.from_bytes([*pieces, *[b""] * ends], self.ends)
        self.reads = 0

    @abstractmethod
    def logits(self, completion: tuple[int, ...]) -> np.ndarray:
        """Logits [V] after a completion."""

    def encode(self, prompt, *, chat=True) -> list[int]:
        return [self.ends[0]]

    def cache(self, rows: int) -> Cache:
        return Rows([[] for _ in range(rows)])

    def forward(self, tokens, cache):
        assert isinstance(cache, Rows)
        self.reads += len(tokens)
        for row, new in zip(cache.rows, tokens, strict=True):
            row += new
        return np.stack([self.logits(tuple(row[1:])) for row in cache.rows])

    def forward_trees(self, tokens, parents, skip, cache):
        assert isinstance(cache, Rows)
        self.reads += len(tokens)
        cache.trees = [list(row) for row in tokens]
        found = []
        for row, new, before, first in zip(cache.rows, tokens, parents, skip, strict=True):
            paths: list[tuple[int, ...]] = []
            for token, parent in zip(new, before, strict=True):
                paths.append((*(paths[parent] if parent >= 0 else row), token))
            found.append(np.stack([self.logits(path[1:]) for path in paths[first:]]))
        return found
