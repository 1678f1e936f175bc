"""Kernels for verification on the device: Triton for CUDA tensors, an equivalent in torch elsewhere.

    row_stats     log-sum-exp, keys with the noise of `constrained.spec.noise`, and the top m of every row of logits
    compact_kv    moves the accepted path to the end of the KV cache
    LayerCaches   that for caches that are moved often; copies rows of other caches, in all layers at once
    apply_masks   masks from a table onto logits
    tree_attention   attention of draft trees, by a bit for each ancestor

Both use identical Philox integers and draw identical tokens; floats agree to float32 rounding. Arguments are
checked by shape, type and device (`InvalidTensor`). `gpu` holds the Triton side and is imported when first used.
"""

from __future__ import annotations

from constrained.spec.kernels.attention import tree_attention
from constrained.spec.kernels.caches import LayerCaches, compact_kv
from constrained.spec.kernels.checks import InvalidTensor
from constrained.spec.kernels.masking import apply_masks
from constrained.spec.kernels.row_stats import RowStats, SplitStats
from constrained.spec.kernels.rows import (
    merge_splits,
    noise_keys,
    row_stats,
    split_stats,
)

__all__ = [
    "InvalidTensor",
    "LayerCaches",
    "RowStats",
    "SplitStats",
    "apply_masks",
    "compact_kv",
    "merge_splits",
    "noise_keys",
    "row_stats",
    "split_stats",
    "tree_attention",
]
