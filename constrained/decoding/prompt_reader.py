"""`PromptReader`: reads trees of tokens behind a prompt, one after the other; `score_tree`: the scores of one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.stats import Stats
from constrained.decoding.tree_scores import Row, Scale, ScoreReader, TreeScores
from constrained.sampling.token_tree import ROOT, TokenTree

if TYPE_CHECKING:
    from constrained.models import Cache, LanguageModel, Logits

MOST_NODES = 512
"""Nodes of a tree that one pass reads: their logits are in memory together."""

PIECE_NODES = 32
"""The same on a CPU where others wait: a node takes as long in a wider pass there."""

LONGEST_PROMPT = 1024
"""Tokens of a prompt that are read together with a tree: the attention mask of a tree grows as the square of both."""


class PromptReader:
    """Reads trees behind a prompt, one after the other; the cache has read the prompt alone afterwards.

    What a tree begins with is kept for the next one, which mostly begins with it too.

    Attributes:
        prompt_logits: their first row is behind the prompt; None before the prompt is read, if it is read here.
    """

    def __init__(
        self,
        model: LanguageModel,
        cache: Cache,
        stats: Stats,
        unread: Sequence[int] = (),
        *,
        most: int = MOST_NODES,
        between: Callable[[], None] | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            model: reads trees.
            cache: one row.
            stats: count the passes.
            unread: what the cache has not read of the prompt; it is read with the first tree.
            most: nodes of a tree that one pass reads.
            between: called between two passes; it leaves the cache alone.
        """
        self.prompt_logits: Logits | None = None
        self._model, self._cache, self._stats = model, cache, stats
        self._unread, self._most, self._between = list(unread), most, between
        # The last two rows, with the tokens that they have read behind the prompt: a tree may part from the one before.
        self._stages: list[tuple[list[int], Cache]] = []

    def rows(self, tree: TokenTree, keep: int = 0) -> Mapping[int, Callable[[], Row]]:
        """Reads a tree; returns by node what gives the logits [V] behind it.

        Nodes that an earlier tree has read have none.

        Args:
            tree: what is read.
            keep: how many of the first tokens, which all sequences share, are kept for later trees; there are no logits behind them then.
        """
        return dict(self._read(tree, keep))

    def scores(
        self,
        tree: TokenTree,
        ends: Sequence[NDArray[np.intp] | None] = (),
        scale: Scale | None = None,
        *,
        whole: bool = False,
    ) -> TreeScores:
        """The scores of a tree, see `score_tree`.

        Args:
            tree: the sequences.
            ends: as of `score_tree`.
            scale: as of `score_tree`.
            whole: the first tokens count; False: only what stands behind the tokens that an earlier tree has read.
        """
        reader, before = ScoreReader(tree, ends, scale), self._stats.forwards
        for node, row in self._read(tree, 0):
            if reader.wants(node):
                reader.read(node, row())
        if whole and self.prompt_logits is not None:
            reader.read(ROOT, self.prompt_logits.row(0))
        return reader.scores(self._stats.forwards - before)

    def _read(self, tree: TokenTree, keep: int) -> Iterator[tuple[int, Callable[[], Row]]]:
        """The nodes of a tree, part by part, each once, with what gives the logits behind it."""
        trunk = _trunk(tree)
        shared = [tree.tokens[node] for node in trunk]
        while self._stages and not _begins(self._stages[-1][0], shared, len(tree.tokens)):
            self._stages.pop()
        known, row = self._stages[-1] if self._stages else ([], self._cache)
        seen = len(known)  # the first nodes: those of the trunk come first
        for part in list(tree.parts(self._most, seen)) or [[]] * bool(self._unread):
            if self._between is not None and not self._unread:
                self._between()
            unread, self._unread = self._unread, []
            if len(unread) > LONGEST_PROMPT:
                self._model.forward([unread[:-1]], row)
                unread = unread[-1:]
                self._stats.forwards += 1
            nodes = [node for node in part if node >= len(known)]
            place = {node: i for i, node in enumerate(nodes)}
            parents = [place.get(tree.parents[node], ROOT) for node in nodes]
            own = row if unread else row.fork([0])
            logits = read_tree(self._model, own, unread, [tree.tokens[node] for node in nodes], parents)
            self._stats.forwards += 1
            kept = min(keep, part[-1] + 1) if part else 0
            if unread:
                own.keep_paths([0], [list(range(len(unread)))])
                self.prompt_logits = logits
            elif kept > len(known):
                own.keep_paths([0], [list(range(kept - len(known)))])
                known, row = shared[:kept], own
                self._stages = [*self._stages[-1:], (known, own)]
            for node, i in place.items():
                if node >= seen:
                    yield node, partial(logits.row, i + bool(unread))
            seen = max([seen, *(node + 1 for node in nodes)])


def score_tree(
    model: LanguageModel,
    prompt: Sequence[int],
    tree: TokenTree,
    ends: Sequence[NDArray[np.intp] | None] = (),
    scale: Scale | None = None,
    *,
    most: int = MOST_NODES,
) -> TreeScores:
    """The log-probability of each sequence of a tree behind a prompt.

    Args:
        model: reads the prompt and the tree in one pass; a tree of more than `most` nodes in several. One that cannot read
            trees takes a pass for each node.
        prompt: token ids, at least one.
        tree: the sequences.
        ends: for each sequence the tokens of which one has to follow; None: anything may. By default of all.
        scale: of logits, such as a temperature; None: as they are.
        most: see `model`.
    """
    cache = model.cache(1)
    if model.no_trees is None:
        return PromptReader(model, cache, Stats(), prompt, most=most).scores(tree, ends, scale, whole=True)
    reader = ScoreReader(tree, ends, scale)
    reader.read(ROOT, model.forward([list(prompt)], cache)[0])
    for node, row in _rows_one_by_one(model, tree, ROOT, cache):
        reader.read(node, row)
    return reader.scores(1 + len(tree.tokens))


def _rows_one_by_one(
    model: LanguageModel, tree: TokenTree, node: int, cache: Cache
) -> Iterator[tuple[int, Row]]:
    children = tree.children.get(node, ())
    for child in children:
        twin = cache if child == children[-1] else cache.fork([0])
        yield child, model.forward([[tree.tokens[child]]], twin)[0]
        yield from _rows_one_by_one(model, tree, child, twin)


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
