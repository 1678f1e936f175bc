"""Moves the accepted path of a draft tree to the end of the KV cache, in all layers at once and in place.

A forward pass over a tree appends the keys and values of its nodes to the cache. Those of the accepted nodes are moved to
the front, which leaves the cache of a sequential run; the caller crops the rest. Sources and targets may
overlap: all rows of a request are read before one is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from spec.kernels import checks


def compact_kv(caches: Sequence[torch.Tensor], source: torch.Tensor, start: torch.Tensor) -> None:
    """For every cache, request r and j with ``source[r, j] >= 0``: row ``start[r] + j`` becomes row ``source[r, j]``.

    Args:
        caches: keys and values of all layers, each ``[requests, heads, length, size]`` of any type, changed in place;
            the last dimension is contiguous. Layers may differ in everything but `requests`; those that are alike
            are moved together.
        source: where rows are, int32 ``[requests, rows]``, in any order, less than every `length`; -1: leave the
            target as it is. The most rows are 1,024.
        start: where the first of them goes, int32 ``[requests]``; ``start + rows`` is within every `length` except
            for rows that are -1.

    Raises:
        InvalidTensor: an argument has the wrong shape, type or device.
    """
    checks.check_tensor("source", source, (torch.int32,), (None, None))
    requests, rows = source.shape
    if rows > 1024:
        raise checks.InvalidTensor("source", f"moves {rows} rows, not 1,024 or less")
    checks.check_tensor("start", start, (torch.int32,), (requests,), source)
    for number, cache in enumerate(caches):
        name = f"caches[{number}]"
        if not isinstance(cache, torch.Tensor):
            raise checks.InvalidTensor(name, f"is {type(cache).__name__}, not a tensor")
        checks.check_tensor(name, cache, (cache.dtype,), (requests, None, None, None), source)
    if not rows or not requests:
        return
    if checks.uses_triton(source):
        from spec.kernels.gpu.compaction import launch_compact_kv

        with torch.cuda.device(source.device):
            launch_compact_kv(caches, source, start)
    else:
        compact_kv_torch(caches, source, start)


def compact_kv_torch(caches: Sequence[torch.Tensor], source: torch.Tensor, start: torch.Tensor) -> None:
    """`compact_kv` in torch, one cache after another."""
    request, column = (source >= 0).nonzero(as_tuple=True)
    moved = source[request, column].to(torch.int64)
    put = start[request].to(torch.int64) + column
    for cache in caches:
        cache[request, :, put] = cache[request, :, moved]
