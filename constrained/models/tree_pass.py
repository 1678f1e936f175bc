"""A forward pass over draft trees behind rows of a slab; lengths, positions and trees are data."""

from __future__ import annotations

from typing import Any

import torch

from constrained.models.attention_masks import AttentionLayout, tree_masks
from constrained.models.cache import ForwardFunction
from constrained.models.slab import Slab


def tree_pass(
    run: ForwardFunction,
    layout: AttentionLayout,
    slab: Slab,
    first: int,
    shown: int,
    ids: torch.Tensor,
    lengths: torch.Tensor,
    depths: torch.Tensor,
    words: torch.Tensor,
    *,
    every: bool = True,
    attends: bool = False,
    masked: bool = True,
) -> torch.Tensor:
    """Logits [slots, tokens, V], or [slots, 1, V] of the last tokens.

    Args:
        run: the model.
        layout: of the model.
        slab: where the rows are.
        first: the first of the slots that are read.
        shown: number of first columns that queries may see: at least the longest row and the tokens.
        ids: int64 [slots, tokens].
        lengths: tokens of each row, int64 [slots].
        depths: of each token: its position behind the row, int64 [slots, tokens].
        words: which tokens each token sees, see `ancestor_words`.
        every: logits of all tokens.
        attends: the model's attention takes trees, see `constrained.models.tree_attention`.
        masked: some layers look at a mask all the same.
    """
    slots, width = ids.shape
    ends = lengths.unsqueeze(1)
    here = torch.arange(first, first + slots, device=ids.device).unsqueeze(1)
    slab.target.write((first, first + slots), (here, ends + torch.arange(width, device=ids.device)), shown)
    attends = attends and words.shape[2] == 1
    tree = {"tree": (lengths, words[:, :, 0], depths, layout.layer_windows)} if attends else {}
    if masked or not attends:
        mask = tree_masks(layout, lengths, depths, words, shown)
    else:
        mask = _no_masks(layout, ids.device)
    logits: torch.Tensor = run(
        every=every,
        input_ids=ids,
        position_ids=ends + depths,
        attention_mask=mask,
        cache=slab.cache,
        **tree,
    )
    return logits


def _no_masks(layout: AttentionLayout, device: torch.device) -> Any:
    """What stands for masks that nobody looks at: transformers makes its own where there is none. Looked at, it gives no number."""
    nothing = torch.full((1, 1, 1, 1), torch.nan, device=device)
    return nothing if len(layout.windows) == 1 else dict.fromkeys(layout.windows, nothing)
