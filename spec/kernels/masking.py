"""Applies masks from a device table to logits in place, so that a step transfers one int for each row.

For logits processors, where other code samples. Must not know: automata.
"""

from __future__ import annotations

import torch

from constrained.spec.kernels import checks
from constrained.spec.kernels.rows import unpack_masks


def apply_masks(logits: torch.Tensor, mask_table: torch.Tensor, mask_ids: torch.Tensor) -> None:
    """Sets the logits of masked tokens to -inf.

    Args:
        logits: changed in place; bfloat16, float16 or float32 ``[rows, vocabulary]``, each row contiguous.
        mask_table: masks, int32 ``[masks, words]``, token t at bit ``t % 32`` of word ``t // 32``; tokens beyond it are
            not allowed.
        mask_ids: index into the table for each row, int32 ``[rows]``; -1 leaves the row unchanged.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    checks.check_tensor("logits", logits, checks.FLOATS, (None, None))
    checks.check_masks(mask_table, mask_ids, len(logits), logits)
    if checks.uses_triton(logits):
        from constrained.spec.kernels.gpu.masking import launch_apply_masks

        with torch.cuda.device(logits.device):
            launch_apply_masks(logits, mask_table, mask_ids)
    else:
        apply_masks_torch(logits, mask_table, mask_ids)


def apply_masks_torch(logits: torch.Tensor, mask_table: torch.Tensor, mask_ids: torch.Tensor) -> None:
    """`apply_masks` in torch."""
    logits.masked_fill_(~unpack_masks(mask_table, mask_ids, logits.shape[1]), -torch.inf)
