"""Kernel E: masks from a table onto logits, in place, by the number of the place: what a step sends is one int a row.

Where a mask is the rule and the draw is somebody else's: logits processors. Must not know: automata.
"""

from __future__ import annotations

import torch

from spec.kernels import checks
from spec.kernels.rows import unpacked


def apply_rows(logits: torch.Tensor, table: torch.Tensor, places: torch.Tensor) -> None:
    """Sets the logits of tokens that are not allowed to -inf.

    Args:
        logits: changed in place; bfloat16, float16 or float32 ``[rows, vocabulary]``, each row contiguous.
        table: masks, int32 ``[places, words]``, token t at bit ``t % 32`` of word ``t // 32``; tokens beyond it are
            not allowed.
        places: which mask of the table is a row's, int32 ``[rows]``; -1 leaves the row as it is.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    checks.tensor("logits", logits, checks.FLOATS, (None, None))
    checks.masks(table, places, len(logits), logits)
    if checks.compiled(logits):
        from spec.kernels.gpu.masking import launch_apply_rows

        with torch.cuda.device(logits.device):
            launch_apply_rows(logits, table, places)
    else:
        apply_rows_twin(logits, table, places)


def apply_rows_twin(logits: torch.Tensor, table: torch.Tensor, places: torch.Tensor) -> None:
    """`apply_rows` in torch."""
    logits.masked_fill_(~unpacked(table, places, logits.shape[1]), -torch.inf)
