"""Kernel E: masks from a table onto logits, in place, by the number of the place: what a step sends is one int a row.

Where a mask is the rule and the draw is somebody else's: logits processors. Must not know: automata.
"""

from __future__ import annotations

import torch

from spec.kernels import checks
from spec.kernels.rows import unpack_masks


def apply_masks(logits: torch.Tensor, mask_table: torch.Tensor, mask_ids: torch.Tensor) -> None:
    """Sets the logits of tokens that are not allowed to -inf.

    Args:
        logits: changed in place; bfloat16, float16 or float32 ``[rows, vocabulary]``, each row contiguous.
        mask_table: masks, int32 ``[places, words]``, token t at bit ``t % 32`` of word ``t // 32``; tokens beyond it are
            not allowed.
        mask_ids: which mask of the table is a row's, int32 ``[rows]``; -1 leaves the row as it is.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    checks.check_tensor("logits", logits, checks.FLOATS, (None, None))
    checks.check_masks(mask_table, mask_ids, len(logits), logits)
    if checks.uses_triton(logits):
        from spec.kernels.gpu.masking import launch_apply_masks

        with torch.cuda.device(logits.device):
            launch_apply_masks(logits, mask_table, mask_ids)
    else:
        apply_masks_torch(logits, mask_table, mask_ids)


def apply_masks_torch(logits: torch.Tensor, mask_table: torch.Tensor, mask_ids: torch.Tensor) -> None:
    """`apply_masks` in torch."""
    logits.masked_fill_(~unpack_masks(mask_table, mask_ids, logits.shape[1]), -torch.inf)
