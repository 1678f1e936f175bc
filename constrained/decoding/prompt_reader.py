"""`PromptReader`: reads trees of tokens behind a prompt, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.stats import Stats
from constrained.decoding.tree_scores import Row, ScoreReader, TreeScores
from constrained.sampling.token_tree import ROOT, TokenTree

if TYPE_CHECKING:
    from constrained.models import Cache, LanguageModel, Logits


class PromptReader:
    """Reads trees behind a prompt that a row of a cache has read already; this row is not changed.

    What a tree begins with is kept for the next one, which mostly begins with it too.
    """

    def __init__(self, model: LanguageModel, cache: Cache, stats: Stats) -> None:
        """Nothing is read yet.

        Args:
            model: reads trees.
            cache: one row.
            stats: count the passes.
        """
        self._model, self._cache, self._stats = model, cache, stats
        # The last two rows, with the tokens that they have read behind the prompt: a tree may part from the one before.
        self._stages: list[tuple[list[int], Cache]] = []

    def rows(self, tree: TokenTree, keep: int = 0) -> Mapping[int, Callable[[], Row]]:
        """Reads a tree whose sequences share their first token; returns by node what gives the logits [V] behind it.

        Nodes that an earlier tree has read have none.

        Args:
            tree: what is read.
            keep: how many of the first tokens, which all sequences share, are kept for later trees; there are no logits behind them then.
        """
        trunk = _trunk(tree)
        shared = [tree.tokens[node] for node in trunk]
        while self._stages and not _begins(self._stages[-1][0], shared, len(tree.tokens)):
            self._stages.pop()
        read, row = self._stages[-1] if self._stages else ([], self._cache)
        row, known = row.fork([0]), set(trunk[: len(read)])
        nodes = [node for node in range(len(tree.tokens)) if node not in known]
        place = {node: i for i, node in enumerate(nodes)}
        parents = [place.get(tree.parents[node], ROOT) for node in nodes]
        logits = read_tree(self._model, row, (), [tree.tokens[node] for node in nodes], parents)
        if keep > len(read):
            row.keep_paths([0], [list(range(keep - len(read)))])
            self._stages = [*self._stages[-1:], (shared[:keep], row)]
        self._stats.forwards += 1
        return {node: partial(logits.row, i) for node, i in place.items()}

    def scores(self, tree: TokenTree, ends: Sequence[NDArray[np.intp] | None]) -> TreeScores:
        """The scores of a tree, see `score_tree`, of what stands behind the tokens that an earlier tree has read."""
        reader = ScoreReader(tree, ends)
        for node, row in self.rows(tree).items():
            if reader.wants(node):
                reader.read(node, row())
        return reader.scores(1)


def read_tree(
    model: LanguageModel, cache: Cache, unread: Sequence[int], tokens: Sequence[int], parents: Sequence[int]
) -> Logits:
    """The logits behind the last of some unread tokens, if there are any, and then behind each node of a tree that follows them."""
    last = len(unread) - 1
    places = [*range(-1, last), *(last + 1 + parent for parent in parents)]
    return model.forward_logits([[*unread, *tokens]], ([places], [max(last, 0)]), cache)


def _begins(read: Sequence[int], shared: Sequence[int], size: int) -> bool:
    """Whether some tokens are the first ones of those that all sequences share, and not the whole tree."""
    return len(read) < size and list(read) == list(shared[: len(read)])


def _trunk(tree: TokenTree) -> list[int]:
    """The nodes that all sequences share, before one of them ends."""
    ends = {path[-1] for path in tree.paths if path}
    trunk, at = list[int](), ROOT
    while at not in ends and len(tree.children.get(at, ())) == 1:
        (at,) = tree.children[at]
        trunk.append(at)
    return trunk
