"""The compaction of a cache in Triton: one program for a cache, a request, a head and some columns; it holds all rows it moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
import triton
import triton.language as tl

from spec.kernels.gpu.rows import FUSED

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_HELD = 2048  # elements of a program: rows times columns


@triton.jit
def _compact_kv(
    like,
    addresses,
    source,
    source_stride,
    start,
    heads,
    rows,
    size,
    request_stride,
    head_stride,
    length_stride,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    request = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    cache = tl.load(addresses + tl.program_id(1)).to(like.dtype)
    cache += request.to(tl.int64) * request_stride + head.to(tl.int64) * head_stride
    row = tl.arange(0, ROWS)
    taken = tl.load(source + request.to(tl.int64) * source_stride + row, mask=row < rows, other=-1)
    put = tl.load(start + request) + row
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    moved = (taken >= 0)[:, None] & (column < size)[None, :]
    held = tl.load(cache + taken.to(tl.int64)[:, None] * length_stride + column[None, :], mask=moved)
    tl.debug_barrier()  # a row that one thread writes, another may still have to read
    tl.store(cache + put.to(tl.int64)[:, None] * length_stride + column[None, :], held, mask=moved)


def prepare_compaction(
    caches: Sequence[torch.Tensor],
) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """`CacheCompaction` of checked caches: one launch for all of one form, as a rule for all. Their addresses are copied once."""
    alike: dict[tuple[object, ...], list[torch.Tensor]] = defaultdict(list)
    for cache in caches:
        if cache.numel():
            alike[cache.shape, cache.stride(), cache.dtype].append(cache)
    groups = [
        (
            group[0],
            group[0].view(_WORDS[group[0].element_size()]),
            torch.tensor([cache.data_ptr() for cache in group], dtype=torch.int64).to(group[0].device),
        )
        for group in alike.values()
    ]

    def launch(source: torch.Tensor, start: torch.Tensor) -> None:
        requests, rows = source.shape
        held = triton.next_power_of_2(rows)
        for first, like, addresses in groups:
            _, heads, _, size = first.shape
            columns = min(triton.next_power_of_2(size), max(16, _HELD // held))
            _compact_kv[(requests * heads, len(addresses), triton.cdiv(size, columns))](
                like,
                addresses,
                source,
                source.stride(0),
                start,
                heads,
                rows,
                size,
                *first.stride()[:3],
                ROWS=held,
                COLUMNS=columns,
                **FUSED,
            )

    return launch
