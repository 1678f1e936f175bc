"""What verification does on the device, one file for each kernel: Triton on CUDA tensors, its twin in torch elsewhere.

    A   row_stats     log-sum-exp, keys with the noise of `spec.noise`, and the top m of every row of logits
    B   merge_walk    the walk through draft trees, for masks that are on the device
    C   compact_kv    the accepted path becomes the end of the cache
    D   (tree attention has its place here; models attend to trees through masks so far)
    E   apply_rows    masks onto logits by number

Both have the same Philox integers, so they draw the same tokens; floats agree to float32 rounding. Arguments are
checked by shape, type and device (`InvalidTensor`). `gpu` holds the Triton side and is imported when first used.
"""

from __future__ import annotations

from spec.kernels.checks import InvalidTensor
from spec.kernels.compaction import compact_kv
from spec.kernels.masking import apply_masks
from spec.kernels.rows import RowStats, SplitStats, merge_splits, noise_keys, row_stats, split_stats
from spec.kernels.walk import VerifiedPaths, verify_trees

__all__ = [
    "InvalidTensor",
    "RowStats",
    "SplitStats",
    "VerifiedPaths",
    "apply_masks",
    "compact_kv",
    "merge_splits",
    "noise_keys",
    "row_stats",
    "split_stats",
    "verify_trees",
]
