"""The attention of draft trees in Triton: one program for a key head, some rows and a part of the columns; one to merge the parts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from constrained.spec.kernels.gpu.rows import FUSED

SPLIT = 256
"""Columns of a program."""
BLOCK = 32
"""Columns that it looks at together."""
AMD_ROWS = 16
"""Rows of a program on AMD, where 32 spill scalar registers."""


@triton.jit
def _tree_attention(
    queries,
    query_slot,
    query_head,
    query_node,
    key_store,
    key_slot,
    key_head,
    key_column,
    value_store,
    value_slot,
    value_head,
    value_column,
    lengths,
    ancestors,
    depths,
    parts,
    masses,
    scale,
    groups,
    window,
    shared: tl.constexpr,
    nodes: tl.constexpr,
    size: tl.constexpr,
    WINDOW: tl.constexpr,
    ROWS: tl.constexpr,
    SIZE: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    slot = tl.program_id(0) // groups
    group = tl.program_id(0) % groups
    split = tl.program_id(2)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)  # a node of one of the heads that share keys
    known = row < shared * nodes
    head = group * shared + row // nodes
    node = row % nodes
    length = tl.load(lengths + slot).to(tl.int32)
    end = length + nodes
    first = split * SPLIT
    last = tl.minimum(first + SPLIT, end)
    if first >= end:  # as most of those of a slab with room for the text to grow
        empty = ((slot * groups * shared + head) * nodes + node).to(tl.int64) * tl.num_programs(2) + split
        tl.store(masses + empty * 2, tl.full([ROWS], float("-inf"), tl.float32), mask=known)
        tl.store(masses + empty * 2 + 1, tl.zeros([ROWS], tl.float32), mask=known)
        return
    at = tl.arange(0, SIZE)
    inside = known[:, None]
    if size < SIZE:
        inside = inside & (at < size)[None, :]
    q = tl.load(
        queries + slot.to(tl.int64) * query_slot + head[:, None] * query_head + node[:, None] * query_node + at[None, :],
        mask=inside, other=0.0,
    )  # fmt: skip
    word = tl.load(ancestors + slot * nodes + node, mask=known, other=0)
    key_store += slot.to(tl.int64) * key_slot + group * key_head
    value_store += slot.to(tl.int64) * value_slot + group * value_head
    lowest = tl.zeros([ROWS], tl.int32)
    if WINDOW:
        lowest = length + tl.load(depths + slot * nodes + node, mask=known, other=0).to(tl.int32) - window + 1
        first = tl.maximum(first, tl.maximum(length - window + 1, 0) // BLOCK * BLOCK)

    peak = tl.full([ROWS], float("-inf"), tl.float32)
    mass = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, SIZE], tl.float32)
    for begin in range(first, last, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        read = (column < last)[:, None]
        if size < SIZE:
            read = read & (at < size)[None, :]
        k = tl.load(key_store + column[:, None].to(tl.int64) * key_column + at[None, :], mask=read, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        other = column - length  # a node, behind the text
        bits = (word[:, None] >> tl.maximum(other, 0)[None, :].to(tl.int64)) & 1
        seen = ((other < 0)[None, :] | (bits == 1)) & (column < last)[None, :]
        if WINDOW:
            depth = tl.load(depths + slot * nodes + other, mask=(other >= 0) & (other < nodes), other=0)
            place = tl.where(other < 0, column, length + depth.to(tl.int32))
            seen = seen & (place[None, :] >= lowest[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        shares = tl.exp(scores - base[:, None])
        faded = tl.exp(peak - base)
        v = tl.load(
            value_store + column[:, None].to(tl.int64) * value_column + at[None, :], mask=read, other=0.0
        )
        sums = sums * faded[:, None] + tl.dot(shares.to(v.dtype), v, input_precision=PRECISION)
        mass = mass * faded + tl.sum(shares, axis=1)
        peak = higher
    out = ((slot * groups * shared + head) * nodes + node).to(tl.int64) * tl.num_programs(2) + split
    tl.store(masses + out * 2, peak, mask=known)
    tl.store(masses + out * 2 + 1, mass, mask=known)
    tl.store(parts + out[:, None] * size + at[None, :], sums, mask=inside & (first < last))


@triton.jit
def _merge_attention(
    parts, masses, result, heads, nodes, splits, size, SPLITS: tl.constexpr, SIZE: tl.constexpr
):
    row = tl.program_id(0)  # slot, head, node
    split = tl.arange(0, SPLITS)
    at = tl.arange(0, SIZE)
    here = row.to(tl.int64) * splits + split
    peaks = tl.load(masses + here * 2, mask=split < splits, other=float("-inf"))
    sums = tl.load(masses + here * 2 + 1, mask=split < splits, other=0.0)
    shares = tl.exp(peaks - tl.max(peaks, axis=0))
    # Parts without columns in sight were not written.
    held = (split < splits) & (peaks > float("-inf"))
    shown = held[:, None] & (at < size)[None, :]
    found = tl.load(parts + here[:, None] * size + at[None, :], mask=shown, other=0.0)
    total = tl.sum(found * shares[:, None], axis=0) / tl.sum(sums * shares, axis=0)
    slot, head, node = row // (heads * nodes), row // nodes % heads, row % nodes
    out = ((slot * nodes + node) * heads + head).to(tl.int64) * size + at
    tl.store(result + out, total.to(result.dtype.element_ty), mask=at < size)


def launch_tree_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    lengths: torch.Tensor,
    words: torch.Tensor,
    depths: torch.Tensor,
    scale: float,
    window: int,
    *,
    split: int = SPLIT,
) -> torch.Tensor:
    """`constrained.spec.kernels.tree_attention` of checked arguments; `split` is the columns of a program, a multiple of `BLOCK`.

    The grid depends on shapes alone: programs whose columns are beyond the text end at once.
    """
    slots, heads, nodes, size = queries.shape
    groups, columns = keys.shape[1:3]
    shared, splits, padded = (
        heads // groups,
        triton.cdiv(columns, split),
        triton.next_power_of_2(max(size, 16)),
    )
    rows = rows_of(padded, shared * nodes)
    queries = queries if queries.stride(3) == 1 else queries.contiguous()
    parts = torch.empty((slots * heads * nodes, splits, size), dtype=torch.float32, device=queries.device)
    masses = torch.empty((slots * heads * nodes, splits, 2), dtype=torch.float32, device=queries.device)
    result = torch.empty((slots, nodes, heads, size), dtype=queries.dtype, device=queries.device)
    if not result.numel():
        return result
    _tree_attention[(slots * groups, triton.cdiv(shared * nodes, rows), splits)](
        queries,
        *queries.stride()[:3],
        keys,
        *keys.stride()[:3],
        values,
        *values.stride()[:3],
        lengths.contiguous(),
        words.contiguous(),
        depths.contiguous(),
        parts,
        masses,
        scale,
        groups,
        window,
        shared,
        nodes,
        size,
        WINDOW=window > 0,
        ROWS=rows,
        SIZE=padded,
        SPLIT=split,
        BLOCK=BLOCK,
        PRECISION="ieee",
        num_warps=4,
        num_stages=2,
        **FUSED,
    )
    _merge_attention[(slots * heads * nodes,)](
        parts,
        masses,
        result,
        heads,
        nodes,
        splits,
        size,
        SPLITS=triton.next_power_of_2(splits),
        SIZE=padded,
        num_warps=4,
        **FUSED,
    )
    return result


def rows_of(size: int, count: int) -> int:
    """Rows of a program, a power of two: their sums are held in registers."""
    most = AMD_ROWS if torch.version.hip else 32 if size <= 128 else 16
    return int(min(most, max(16, triton.next_power_of_2(count))))
