"""What a model thinks of some sequences of tokens behind a prompt: one pass over the prompt and their tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from constrained.sampling.token_tree import ROOT, TokenTree
from constrained.spec.scores import log_sum_exp

Row: TypeAlias = NDArray[np.floating[Any]]
Scale: TypeAlias = Callable[[Row, Sequence[int]], Row]
"""Logits [V] and the tokens before them, to the logits that count."""


@dataclass(frozen=True)
class TreeScores:
    """Log-probabilities of the sequences of a tree, in nats.

    Attributes:
        tree: the sequences.
        steps: of each node's token given what stands before it, float64 [nodes].
        ends: of an end behind each sequence, float64 [sequences]; 0 where no end counts.
        tops: of the likeliest token behind each node and, last, behind `ROOT`, float64 [nodes + 1]; 0 where nothing was read.
        likeliest: these tokens, [nodes + 1].
        passes: of the model.
    """

    tree: TokenTree
    steps: NDArray[np.float64]
    ends: NDArray[np.float64]
    tops: NDArray[np.float64]
    likeliest: NDArray[np.intp]
    passes: int

    def path(self, index: int) -> NDArray[np.float64]:
        """Of each token of a sequence."""
        return self.steps[list(self.tree.paths[index])]

    @property
    def totals(self) -> NDArray[np.float64]:
        """Of each sequence and its end, float64 [sequences]."""
        return np.array([self.path(index).sum() for index in range(len(self.ends))]) + self.ends


class ScoreReader:
    """Reads the logits behind the nodes of a tree, one row after the other, and keeps what counts."""

    def __init__(
        self, tree: TokenTree, ends: Sequence[NDArray[np.intp] | None] = (), scale: Scale | None = None
    ) -> None:
        """Nothing is read yet; arguments as of `constrained.decoding.prompt_reader.score_tree`."""
        self._tree = tree
        self._ends = ends or [None] * len(tree.paths)
        self._scale = scale
        self._steps, self._behind = np.zeros(len(tree.tokens)), np.zeros(len(tree.paths))
        self._tops = np.zeros(len(tree.tokens) + 1)
        self._likeliest = np.zeros(len(tree.tokens) + 1, dtype=np.intp)
        self._ending: dict[int, list[int]] = {}
        for index, (path, wanted) in enumerate(zip(tree.paths, self._ends, strict=True)):
            if wanted is not None:
                self._ending.setdefault(path[-1] if path else ROOT, []).append(index)

    def wants(self, node: int) -> bool:
        """Whether the logits behind a node, or `ROOT`, count."""
        return node in self._tree.children or node in self._ending

    def read(self, node: int, row: Row) -> None:
        """Takes the logits [V] behind a node."""
        if not self.wants(node):
            return
        tokens = self._tree.tokens
        logits = (
            row if self._scale is None else self._scale(row, [tokens[one] for one in self._tree.above(node)])
        )
        logs = logits.astype(np.float64)
        normaliser = log_sum_exp(logs)
        self._likeliest[node] = best = int(np.argmax(logs))
        self._tops[node] = logs[best] - normaliser
        for child in self._tree.children.get(node, ()):
            self._steps[child] = logs[tokens[child]] - normaliser
        for index in self._ending.get(node, ()):
            self._behind[index] = log_sum_exp(logs[self._ends[index]]) - normaliser

    def scores(self, passes: int) -> TreeScores:
        """The scores, after all nodes that count."""
        return TreeScores(self._tree, self._steps, self._behind, self._tops, self._likeliest, passes)
