"""Moves and copies rows of KV caches in all layers at once.

`compact_kv`: a forward pass over a tree appends the keys and values of its nodes to the cache. Those of the accepted nodes are
moved to the front, in place, which leaves the cache of a sequential run; the caller crops the rest. Sources and targets may
overlap: all rows of a request are read before one is written.

`copy_kv`: the first rows of requests are copied to requests of other caches, as when one joins a batch or leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from constrained.spec.kernels import checks

if TYPE_CHECKING:
    from constrained.spec.kernels.gpu.caches import AddressedCaches


class LayerCaches:
    """Keys and values of all layers. They are looked at once, and must stay where they are."""

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
        self._forms = [(*cache.shape[1::2], cache.dtype) for cache in self._caches]
        self._rows = min((cache.shape[2] for cache in self._caches), default=0)
        self._addressed: AddressedCaches | None = None
        if first is not None and checks.uses_triton(first):
            from constrained.spec.kernels.gpu.caches import AddressedCaches

            self._addressed = AddressedCaches(self._caches)

    def compact(self, source: torch.Tensor, start: torch.Tensor) -> None:
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
        if self._addressed is None:
            compact_kv_torch(self._caches, source, start)
        else:
            with torch.cuda.device(source.device):
                self._addressed.compact(source, start)

    def copy_from(
        self, other: LayerCaches, source: int, target: int, count: int, rows: int, same: bool = False
    ) -> None:
        """For every cache and i below `count`: the first rows of request ``target + i`` become those of ``source + i``.

        The arguments are numbers of the host: nothing is copied to a device but the launch.

        Args:
            other: caches of the same heads, sizes and types, in the same order; or these, where no request is both read and
                written. On a device, layers that are alike here, in their strides, too, are alike there.
            source: the first request of the other caches.
            target: the first request of these.
            count: requests that are written.
            rows: how many of each.
            same: all of them get the rows of `source`.

        Raises:
            InvalidTensor: the other caches are of another form, or there are no such requests or rows.
        """
        if self._forms != other._forms:
            raise checks.InvalidTensor("other", "has other heads, sizes or types")
        if self._first is None or other._first is None or not rows or not count:
            return
        ends = source + (1 if same else count), target + count
        if not (
            0 <= source < ends[0] <= other._first.shape[0] and 0 <= target < ends[1] <= self._first.shape[0]
        ):
            raise checks.InvalidTensor(
                "other", f"cannot be copied from request {source} to {target}, {count} of them"
            )
        if not 0 < rows <= min(self._rows, other._rows):
            raise checks.InvalidTensor("other", f"cannot be copied: {rows} rows are not in both")
        if self._addressed is None or other._addressed is None:
            copy_kv_torch(other._caches, self._caches, source, target, count, rows, same)
        else:
            with torch.cuda.device(self._first.device):
                self._addressed.copy_from(other._addressed, source, target, count, rows, same)


def compact_kv(caches: Sequence[torch.Tensor], source: torch.Tensor, start: torch.Tensor) -> None:
    """`LayerCaches.compact` of caches that are moved once."""
    LayerCaches(caches).compact(source, start)


def compact_kv_torch(caches: Sequence[torch.Tensor], source: torch.Tensor, start: torch.Tensor) -> None:
    """`compact_kv` in torch, one cache after another."""
    request, column = (source >= 0).nonzero(as_tuple=True)
    moved = source[request, column].to(torch.int64)
    put = start[request].to(torch.int64) + column
    for cache in caches:
        cache[request, :, put] = cache[request, :, moved]


def copy_kv_torch(
    sources: Sequence[torch.Tensor],
    targets: Sequence[torch.Tensor],
    source: int,
    target: int,
    count: int,
    rows: int,
    same: bool = False,
) -> None:
    """`LayerCaches.copy_from` in torch, one cache after another."""
    for old, new in zip(sources, targets, strict=True):
        new[target : target + count, :, :rows] = old[source : source + (1 if same else count), :, :rows]
