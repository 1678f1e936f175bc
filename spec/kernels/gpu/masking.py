"""Masks onto logits in Triton: writes -inf for masked tokens, and reads no logits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from constrained.spec.kernels.gpu.rows import FUSED, allowed_of

BLOCK = 4096


@triton.jit
def _apply_masks(logits, row_stride, size, table, table_stride, words, places, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = tl.program_id(1) * BLOCK
    place = tl.load(places + row)
    if place >= 0:
        allowed = allowed_of(table + place.to(tl.int64) * table_stride, words, first // 32, BLOCK // 32)
        ids = first + tl.arange(0, BLOCK)
        lowest = tl.full([BLOCK], float("-inf"), logits.dtype.element_ty)
        tl.store(logits + row.to(tl.int64) * row_stride + ids, lowest, mask=(ids < size) & (allowed == 0))


def launch_apply_masks(
    logits: torch.Tensor, table: torch.Tensor, places: torch.Tensor, *, block: int = BLOCK
) -> None:
    """`constrained.spec.kernels.apply_masks` of checked arguments; `block` is the logits of a program, a power of two."""
    rows, size = logits.shape
    if rows and size:
        _apply_masks[(rows, triton.cdiv(size, block))](
            logits,
            logits.stride(0),
            size,
            table,
            table.stride(0),
            table.shape[1],
            places,
            BLOCK=block,
            **FUSED,
        )
