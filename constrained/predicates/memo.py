"""Cache of the verdicts of a predicate."""

from __future__ import annotations

from collections.abc import Hashable

from constrained.lru_cache import LRUCache

_OVERHEAD = 200
"""Bytes of an entry in addition to its text."""


class VerdictCache:
    """Verdicts by kind of check and text, evicted in least-recently-used order. Thread-safe."""

    def __init__(self, limit: int) -> None:
        """Creates an empty cache.

        Args:
            limit: greatest number of bytes, texts included.
        """
        self._limit = limit
        self._verdicts: LRUCache[tuple[Hashable, str | bytes], bool] = LRUCache(
            limit, size=lambda key, _: len(key[1]) + _OVERHEAD
        )

    def get(self, kind: Hashable, text: str | bytes) -> bool | None:
        """The verdict, or None if it is not cached."""
        return self._verdicts.get((kind, text))

    def put(self, kind: Hashable, text: str | bytes, verdict: bool) -> None:
        """Stores a verdict, unless its text alone exceeds the limit."""
        if len(text) + _OVERHEAD <= self._limit:
            self._verdicts.put((kind, text), verdict)

    def __len__(self) -> int:
        return len(self._verdicts)
