"""A forward pass over draft trees behind rows of a slab; lengths, positions and trees are data."""

from __future__ import annotations

from collections.abc import Mapping
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
    positions: torch.Tensor | None = None,
    *,
    every: bool | int = True,
    supports_tree_attention: bool = False,
    masked: bool = True,
    hidden: Mapping[str, int] | None = None,
) -> torch.Tensor:
    """Logits [slots, tokens, V], or those of the last token or tokens.

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
        positions: of the tokens, int64 [dimensions, slots, tokens]; None: their columns.
        every: logits of all tokens, or of so many last ones; False: of the last one.
        supports_tree_attention: the model's attention implementation is `constrained.models.tree_attention`.
        masked: some of its layers need the mask even so.
        hidden: see `AttentionLayout.hidden`; None: nothing.
    """
    slots, width = ids.shape
    hidden = hidden or {}
    ends = lengths.unsqueeze(1)
    here = torch.arange(first, first + slots, device=ids.device).unsqueeze(1)
    behind = torch.arange(-slab.prefix, width - slab.prefix, device=ids.device)
    slab.target.write((first, first + slots), (here, ends + behind), shown - slab.prefix, hidden)
    passes_tree = supports_tree_attention and words.shape[2] == 1
    tree = {"tree": (lengths, words[:, :, 0], depths, layout.layer_windows)} if passes_tree else {}
    if masked or not passes_tree:
        mask = tree_masks(layout, lengths, depths, words, shown, hidden)
    else:
        mask = _placeholder_masks(layout, ids.device)
    logits: torch.Tensor = run(
        every=every,
        input_ids=ids,
        position_ids=ends + depths if positions is None else positions,
        attention_mask=mask,
        cache=slab.cache,
        **tree,
    )
    return logits


def _placeholder_masks(layout: AttentionLayout, device: torch.device) -> Any:
    """Masks that no layer reads, so that transformers makes none of its own; a layer that does read one gives NaN."""
    nothing = torch.full((1, 1, 1, 1), torch.nan, device=device)
    return nothing if len(layout.windows) == 1 else dict.fromkeys(layout.windows, nothing)
