"""Kernel B in Triton: one program for a request."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from spec.kernels.gpu.keys import LOWEST, ids_of
from spec.kernels.gpu.rows import FUSED, log_masses, scale_of
from spec.kernels.rows import SplitStats
from spec.kernels.walk import VerifiedPaths


@triton.jit
def _merge_walk(
    best,
    masses,
    splits,
    logits,
    row_stride,
    temperature,
    token,
    first_child,
    next_sibling,
    offsets,
    limit,
    count_out,
    tokens_out,
    rows_out,
    log_p_out,
    log_z_out,
    M: tl.constexpr,
    SPLITS: tl.constexpr,
):
    request = tl.program_id(0)
    start = tl.load(offsets + request)
    size = tl.load(offsets + request + 1) - start
    out = request.to(tl.int64) * limit
    split = tl.arange(0, SPLITS)
    node = tl.where(size > 0, 0, -1)
    count = 0
    while (node >= 0) & (count < limit):
        row = start + node
        heads = best + (row.to(tl.int64) * splits + split) * M
        drawn = ids_of(tl.max(tl.load(heads, mask=split < splits, other=LOWEST), axis=0))
        node = -1
        if drawn >= 0:
            lse, log_z = log_masses(masses, row, splits, SPLITS)
            z = tl.load(logits + row.to(tl.int64) * row_stride + drawn).to(tl.float32)
            tl.store(tokens_out + out + count, drawn)
            tl.store(rows_out + out + count, row)
            tl.store(log_p_out + out + count, z * scale_of(tl.load(temperature + row)) - lse)
            tl.store(log_z_out + out + count, log_z)
            count += 1
            child = tl.load(first_child + row)
            looked = 0  # a chain of siblings is never longer than the tree, whatever the arrays say
            while (child >= 0) & (looked < size):
                if tl.load(token + start + child) == drawn:
                    node = child
                    child = -1
                else:
                    child = tl.load(next_sibling + start + child)
                    looked += 1
    tl.store(count_out + request, count)


def launch_verify_trees(
    stats: SplitStats,
    token: torch.Tensor,
    first_child: torch.Tensor,
    next_sibling: torch.Tensor,
    offsets: torch.Tensor,
    limit: int,
) -> VerifiedPaths:
    """`spec.kernels.verify_trees` of checked arguments."""
    device = stats.logits.device
    requests = len(offsets) - 1
    count = torch.zeros(requests, dtype=torch.int32, device=device)
    tokens, rows = (torch.full((requests, limit), -1, dtype=torch.int32, device=device) for _ in range(2))
    log_p, log_z = (torch.zeros((requests, limit), dtype=torch.float32, device=device) for _ in range(2))
    _, splits, top = stats.best.shape
    if requests:
        _merge_walk[(requests,)](
            stats.best,
            stats.masses,
            splits,
            stats.logits,
            stats.logits.stride(0),
            stats.temperature,
            token,
            first_child,
            next_sibling,
            offsets,
            limit,
            count,
            tokens,
            rows,
            log_p,
            log_z,
            M=top,
            SPLITS=triton.next_power_of_2(splits),
            num_warps=1,
            **FUSED,
        )
    return VerifiedPaths(count, tokens, rows, log_p, log_z)
