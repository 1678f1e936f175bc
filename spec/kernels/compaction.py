"""Moves the accepted path of a draft tree to the end of the KV cache, in all layers at once and in place.

A forward pass over a tree appends the keys and values of its nodes to the cache. Those of the accepted nodes are moved to
the front, which leaves the cache of a sequential run; the caller crops the rest. Sources and targets may
overlap: all rows of a request are read before one is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from spec.kernels import checks


class CacheCompaction:
    """Moves rows of the same caches again and again: they are looked at once, and must stay where they are."""

    def __init__(self, caches: Sequence[torch.Tensor]) -> None:
        """Looks at the caches.

        Args:
            caches: keys and values of all layers, each ``[requests, heads, length, size]`` of any type; the last
                dimension is contiguous. Layers may differ in everything but `requests` and the device; those that are
                alike are moved together.

        Raises:
            InvalidTensor: a cache has the wrong shape or device.
        """
        self._caches = list(caches)
        first = None
        for number, cache in enumerate(self._caches):
            name = f"caches[{number}]"
            if not isinstance(cache, torch.Tensor):
                raise checks.InvalidTensor(name, f"is {type(cache).__name__}, not a tensor")
            requests = None if first is None else first.shape[0]
            checks.check_tensor(name, cache, (cache.dtype,), (requests, None, None, None), first)
            first = cache if first is None else first
        self._first = first
        self._launch: Callable[[torch.Tensor, torch.Tensor], None] | None = None
        if first is not None and checks.uses_triton(first):
            from spec.kernels.gpu.compaction import prepare_compaction

            self._launch = prepare_compaction(self._caches)

    def __call__(self, source: torch.Tensor, start: torch.Tensor) -> None:
        """For every cache, request r and j with ``source[r, j] >= 0``: row ``start[r] + j`` becomes row ``source[r, j]``.

        Args:
            source: where rows are, int32 ``[requests, rows]``, in any order, less than every `length`; -1: leave the
                target as it is. The most rows are 1,024.
            start: where the first of them goes, int32 ``[requests]``; ``start + rows`` is within every `length` except
                for rows that are -1.

        Raises:
            InvalidTensor: an argument has the wrong shape, type or device.
        """
        first = self._first
        requests = None if first is None else first.shape[0]
        checks.check_tensor("source", source, (torch.int32,), (requests, None), first)
        requests, rows = source.shape
        if rows > 1024:
            raise checks.InvalidTensor("source", f"moves {rows} rows, not 1,024 or less")
        checks.check_tensor("start", start, (torch.int32,), (requests,), source)
        if first is None or not rows or not requests:
            return
        if self._launch is None:
            compact_kv_torch(self._caches, source, start)
        else:
            with torch.cuda.device(source.device):
                self._launch(source, start)


def compact_kv(caches: Sequence[torch.Tensor], source: torch.Tensor, start: torch.Tensor) -> None:
    """`CacheCompaction` of caches that are moved once."""
    CacheCompaction(caches)(source, start)


def compact_kv_torch(caches: Sequence[torch.Tensor], source: torch.Tensor, start: torch.Tensor) -> None:
    """`compact_kv` in torch, one cache after another."""
    request, column = (source >= 0).nonzero(as_tuple=True)
    moved = source[request, column].to(torch.int64)
    put = start[request].to(torch.int64) + column
    for cache in caches:
        cache[request, :, put] = cache[request, :, moved]
