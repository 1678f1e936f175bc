"""`constrained.spec.kernels.tree_attention` as an attention implementation of transformers.

It is attention of torch (``sdpa``) but for passes over draft trees: on a device these bring a ``tree``, and on a CPU a mask,
with which torch's would copy keys and values for every head that shares them.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from constrained.models.attention_masks import TREE_ATTENTION
from constrained.spec.kernels import tree_attention
from constrained.spec.kernels.attention import MAX_NODES, MAX_SIZE


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    tree: tuple[torch.Tensor, torch.Tensor, torch.Tensor, tuple[int | None, ...]] | None = None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention [rows, tokens, heads, size] of queries [rows, heads, tokens, size].

    Args:
        module: the layer.
        query: of the nodes.
        key: of all columns of the slots.
        value: likewise.
        attention_mask: to be added to the scores, or what is seen; says the same as `tree`, for what torch computes.
        tree: lengths, words and depths, see `constrained.spec.kernels.tree_attention`; and the window of each layer, 0 for none, None for
            keys of another layer.
        scaling: of the scores.
        options: of ``sdpa``.
    """
    size, nodes = query.shape[3], query.shape[2]
    plain = (
        options.get("position_bias") is None
        and options.get("softcap") is None
        and options.get("s_aux") is None
    )
    if attention_mask is None and 1 < nodes < (columns := key.shape[2]):
        # Gemma 4 drops queries whose logits nobody wants. Torch would take those that are left for the first ones.
        attention_mask = query.new_ones(nodes, columns, dtype=torch.bool).tril(columns - nodes)[None, None]
    if tree is None and attention_mask is not None and plain and packs(query, key):
        return packed_attention(query, key, value, attention_mask, scaling), None
    layer = getattr(module, "layer_idx", None)
    window = None if tree is None or layer is None else tree[3][layer]
    if (
        tree is None
        or window is None
        or not plain
        or nodes > MAX_NODES
        or max(size, value.shape[3]) > MAX_SIZE
        or size != value.shape[3]
    ):
        found: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return found
    scale = size**-0.5 if scaling is None else scaling
    return tree_attention(query, key, value, *tree[:3], scale=scale, window=window), None


def packs(query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether heads share keys, in a pass over few tokens on a CPU; one token is packed by transformers itself.

    Not in 16 bits, where torch's attention adds up in 32 and a product of ours would round the scores.
    """
    heads, tokens = query.shape[1:3]
    plain = query.device.type == "cpu" and query.dtype == torch.float32
    return plain and key.shape[1] < heads and 1 < tokens <= MAX_NODES


def packed_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """Attention [rows, tokens, heads, size] in which all heads that share keys are rows of one product; see `attend`."""
    rows, heads, tokens, size = query.shape
    groups, columns = key.shape[1:3]
    scaled = query * (size**-0.5 if scaling is None else scaling)
    scores = scaled.reshape(rows, groups, -1, size) @ key.transpose(2, 3)
    if mask.dtype == torch.bool:  # as transformers makes it for several tokens of one text
        mask = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill_(~mask, torch.finfo(scores.dtype).min)
    scores = scores.view(rows, groups, -1, tokens, columns) + mask[:, :, None, :, :columns]
    shares = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype).flatten(2, 3)
    return (shares @ value).view(rows, heads, tokens, -1).transpose(1, 2)


def choose(config: Any, name: str) -> None:
    """Makes a model use an implementation; `TREE_ATTENTION` is made known first."""
    AttentionInterface.register(TREE_ATTENTION, attend)
    AttentionMaskInterface.register(TREE_ATTENTION, sdpa_mask)
    config._attn_implementation = name
