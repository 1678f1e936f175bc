"""A forward pass over draft trees behind rows of a slab; lengths, positions and trees are data."""

from __future__ import annotations

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
    """
    slots, width = ids.shape
    ends = lengths.unsqueeze(1)
    here = torch.arange(first, first + slots, device=ids.device).unsqueeze(1)
    slab.target.write((first, first + slots), (here, ends + torch.arange(width, device=ids.device)), shown)
    attends = attends and words.shape[2] == 1
    tree = {"tree": (lengths, words[:, :, 0], depths, layout.layer_windows)} if attends else {}
    logits: torch.Tensor = run(
        every=every,
        input_ids=ids,
        position_ids=ends + depths,
        attention_mask=tree_masks(layout, lengths, depths, words, shown),
        past_key_values=slab.cache,
        **tree,
    )
    return logits
