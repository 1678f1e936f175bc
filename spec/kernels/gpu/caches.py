"""Moves and copies of cache rows in Triton, one launch for all layers that are alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from constrained.spec.kernels.checks import InvalidTensor
from constrained.spec.kernels.gpu.rows import FUSED

_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_HELD = 2048  # elements of a program: rows times columns
_COPIED = 16
"""Rows that a program of `copy_kv` copies."""


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
    """One program for a cache, a request, a head and some columns; it holds all rows it moves."""
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


# Not specialised: otherwise it would be compiled again for numbers that are 1, or multiples of 16.
@triton.jit(do_not_specialize=["first_read", "step", "first_written", "rows"])
def _copy_kv(
    like,
    addresses,
    other_addresses,
    first_read,
    step,
    first_written,
    rows,
    heads,
    size,
    request_stride,
    head_stride,
    length_stride,
    other_request,
    other_head,
    other_length,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One program for a cache, a request, a head and some rows."""
    request = tl.program_id(0) // heads
    head = (tl.program_id(0) % heads).to(tl.int64)
    target = tl.load(addresses + tl.program_id(1)).to(like.dtype)
    target += (first_written + request).to(tl.int64) * request_stride + head * head_stride
    other = tl.load(other_addresses + tl.program_id(1)).to(like.dtype)
    other += (first_read + request * step).to(tl.int64) * other_request + head * other_head
    row = (tl.program_id(2) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    held = (row < rows)[:, None] & (column < size)[None, :]
    copied = tl.load(other + row[:, None] * other_length + column[None, :], mask=held)
    tl.store(target + row[:, None] * length_stride + column[None, :], copied, mask=held)


class AddressedCaches:
    """Checked caches, with their addresses on the device, which are copied there once.

    Attributes:
        alike: the numbers of those of one form, which a launch takes together.
    """

    def __init__(self, caches: Sequence[torch.Tensor]) -> None:
        alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, cache in enumerate(caches):
            if cache.numel():
                alike[cache.shape, cache.stride(), cache.dtype].append(number)
        self.alike = list(alike.values())
        self._groups = []
        for numbers in self.alike:
            first = caches[numbers[0]]
            addresses = torch.tensor([caches[number].data_ptr() for number in numbers], dtype=torch.int64)
            like = first.view(_WORDS[first.element_size()])
            self._groups.append((first, like, addresses.to(first.device)))

    def compact(self, source: torch.Tensor, start: torch.Tensor) -> None:
        """See `LayerCaches.compact`."""
        requests, rows = source.shape
        held = triton.next_power_of_2(rows)
        for first, like, addresses in self._groups:
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

    def copy_from(
        self, other: AddressedCaches, source: int, target: int, count: int, rows: int, same: bool
    ) -> None:
        """See `LayerCaches.copy_from`."""
        if self.alike != other.alike:
            raise InvalidTensor("other", "is alike in other layers")
        for (first, like, addresses), (theirs, _, others) in zip(self._groups, other._groups, strict=True):
            _, heads, _, size = first.shape
            _copy_kv[(count * heads, len(addresses), triton.cdiv(rows, _COPIED))](
                like,
                addresses,
                others,
                source,
                0 if same else 1,
                target,
                rows,
                heads,
                size,
                *first.stride()[:3],
                *theirs.stride()[:3],
                ROWS=_COPIED,
                COLUMNS=triton.next_power_of_2(size),
                **FUSED,
            )
