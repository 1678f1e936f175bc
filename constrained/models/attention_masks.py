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


def make_attention_masks(
    layout: AttentionLayout,
    valid: torch.Tensor,
    new: torch.Tensor,
    queries: torch.Tensor,
    ends: torch.Tensor,
    gone: Mapping[str, int],
) -> Any:
    """Masks to be added to attention scores.

    Args:
        layout: of the model.
        valid: which of the columns so far hold tokens, bool [rows, columns]: a layer without a bound sees these.
        new: which of the new columns each query sees, bool [rows, queries, queries].
        queries: positions of the queries, int [rows, queries].
        ends: the position after each row's last token, int [rows, 1].
        gone: by kind: number of first columns that its layers have dropped.

    Returns:
        float32 [rows, 1, queries, columns held], or a mapping from each kind to such a tensor.
    """
    import torch

    seen = torch.cat([valid.unsqueeze(1).expand(-1, new.shape[1], -1), new], dim=2)
    if layout.bounds:
        # Positions of the columns, counted from the end, as first columns may be dropped.
        places = torch.cat([ends - valid.flip(1).cumsum(dim=1).flip(1), queries], dim=1)
    masks = {}
    for kind, sight in layout.windows.items():
        part = seen[:, :, gone[kind] :]
        if sight.bound is not None:
            first = sight.first(queries).unsqueeze(2)
            part = part & (places[:, gone[kind] :].unsqueeze(1) >= first)
        masks[kind] = additive(part)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def is_chain(parents: Sequence[int]) -> bool:
    """Whether every token follows the one before it."""
    return all(parent == i - 1 for i, parent in enumerate(parents))


def tree_attention(parents: Sequence[int], width: int) -> tuple[list[int], NDArray[np.bool_]]:
    """Depth of each token of a tree, and which of its tokens each sees: bool [width, width].

    Padding tokens see themselves, so that no softmax is over an empty set.
    """
    depths = [0] * width
    seen = np.eye(width, dtype=np.bool_)
    for i, parent in enumerate(parents):
        if parent >= 0:
            depths[i] = depths[parent] + 1
            seen[i] |= seen[parent]
    return depths, seen


def additive(seen: torch.Tensor) -> torch.Tensor:
    """A mask to be added to attention scores, [rows, 1, queries, columns], from bool [rows, queries, columns].

    Additive, not boolean: eager attention adds whatever mask it is given.
    """
    import torch

    # -65504 is finite in every dtype, and 0 after a softmax because scores are far smaller.
    least = torch.finfo(torch.float16).min
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, least).unsqueeze(1)
