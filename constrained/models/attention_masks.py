"""Attention masks for draft trees, sliding windows and chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

TREE_ATTENTION = "constrained_tree"
"""The attention implementation of `constrained.models.tree_attention`."""


@dataclass(frozen=True)
class AttentionWindow:
    """How far back a layer sees: everything, or as far as the smaller of its bounds.

    Attributes:
        window: number of tokens, with the query; None: without a bound.
        chunk: the sequence is cut into chunks of this length, and a query sees its own chunk; None: no chunks.
    """

    window: int | None = None
    chunk: int | None = None

    @property
    def bound(self) -> int | None:
        """Greatest number of tokens that a query sees; None without a bound."""
        return self.window or self.chunk

    def first(self, place: Any) -> Any:
        """The lowest position that is seen from a position (an int or a tensor of them), which may be negative."""
        if self.window:
            return place - self.window + 1
        return place // self.chunk * self.chunk if self.chunk else place * 0


@dataclass(frozen=True)
class AttentionLayout:
    """The attention layers of a model.

    Attributes:
        kinds: by layer of the cache: which of `sights` it has; None: it stores no keys.
        windows: by kind. Where there are several, a model takes a mask for each, in a mapping.
    """

    kinds: tuple[str | None, ...]
    windows: Mapping[str, AttentionWindow]

    @cached_property
    def bounds(self) -> dict[str, AttentionWindow]:
        """The kinds with a bounded window."""
        return {kind: sight for kind, sight in self.windows.items() if sight.bound is not None}

    def hidden(self, place: int) -> dict[str, int]:
        """By kind: how many first columns no query from a position on sees; nothing where all are seen."""
        return {kind: first for kind, sight in self.bounds.items() if (first := sight.first(place)) > 0}

    @cached_property
    def layer_windows(self) -> tuple[int | None, ...] | None:
        """By layer: number of tokens that a query sees, 0 for all, None for keys of another layer; None for chunks."""
        if any(sight.chunk for sight in self.windows.values()):
            return None
        return tuple(None if kind is None else self.windows[kind].window or 0 for kind in self.kinds)


def is_chain(parents: Sequence[int]) -> bool:
    """Whether every token follows the one before it."""
    return all(parent == i - 1 for i, parent in enumerate(parents))


def ancestor_words(
    parents: Sequence[Sequence[int]], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Depth of each token of some trees, int64 [trees, width], and which tokens it sees, int64 [trees, width, words].

    Token j is bit ``j % 64`` of word ``j // 64``. Tokens see themselves, padding too, so that no softmax is over an empty
    set; padding has depth 0.
    """
    depths = np.zeros((len(parents), width), dtype=np.int64)
    words = np.zeros((len(parents), width, (width + 63) // 64), dtype=np.uint64)
    own = np.arange(width)
    words[:, own, own // 64] = np.uint64(1) << (own % 64).astype(np.uint64)
    for depth, word, tree in zip(depths, words, parents, strict=True):
        begin = next((i for i, parent in enumerate(tree) if parent != i - 1), len(tree))
        depth[:begin] = own[:begin]  # what is read before the tree is a chain
        np.bitwise_or.accumulate(word[:begin], axis=0, out=word[:begin])
        for i, parent in enumerate(tree[begin:], begin):
            if parent >= 0:
                depth[i] = depth[parent] + 1
                word[i] |= word[parent]
    return depths, words.view(np.int64)


def tree_masks(
    layout: AttentionLayout,
    lengths: torch.Tensor,
    depths: torch.Tensor,
    words: torch.Tensor,
    columns: int,
    hidden: Mapping[str, int],
) -> Any:
    """Masks of trees that stand behind rows without holes, to be added to attention scores.

    Args:
        layout: of the model.
        lengths: of the rows, int64 [rows]; token j of a tree is at column ``length + j``.
        depths: see `ancestor_words`.
        words: see `ancestor_words`.
        columns: number of columns.
        hidden: by kind: first columns that are left out.

    Returns:
        float32 [rows, 1, tokens, columns that are not hidden], or a mapping from each kind of layer to such a tensor.
    """
    import torch

    _, width, count = words.shape
    column = torch.arange(columns, device=lengths.device)
    node = column - lengths.unsqueeze(1)
    known = node.clamp(0, width - 1)
    bit = known.unsqueeze(1)
    word = words if count == 1 else words.gather(2, (bit >> 6).expand(-1, width, -1))
    bits = word >> (bit & 63)
    seen = ((bits & 1) == 1) & (node < width).unsqueeze(1) | (node < 0).unsqueeze(1)
    if layout.bounds:
        ends = lengths.unsqueeze(1)
        places = torch.where(node < 0, column, ends + depths.gather(1, known)).unsqueeze(1)
        queries = (ends + depths).unsqueeze(2)
    # Additive, not boolean: eager attention adds whatever mask it is given. -65504 is finite in every dtype, and 0 after
    # a softmax because scores are far smaller.
    least = torch.finfo(torch.float16).min
    masks = {}
    for kind, sight in layout.windows.items():
        begin = hidden.get(kind, 0)
        part = seen[:, :, begin:]
        if sight.bound is not None:
            part = part & (places[:, :, begin:] >= sight.first(queries))
        masks[kind] = torch.zeros(part.shape, device=part.device).masked_fill_(~part, least).unsqueeze(1)
    return masks if len(masks) > 1 else next(iter(masks.values()))
