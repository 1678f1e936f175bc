"""Cache of the verdicts of a predicate."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

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
        self._size = 0
        self._known: OrderedDict[tuple[Hashable, str | bytes], bool] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, kind: Hashable, text: str | bytes) -> bool | None:
        """The verdict, or None if it is not cached."""
        with self._lock:
            verdict = self._known.get((kind, text))
            if verdict is not None:
                self._known.move_to_end((kind, text))
            return verdict

    def put(self, kind: Hashable, text: str | bytes, verdict: bool) -> None:
        """Stores a verdict."""
        with self._lock:
            if (kind, text) not in self._known:
                self._size += len(text) + _OVERHEAD
            self._known[kind, text] = verdict
            while self._size > self._limit and self._known:
                (_, oldest), _ = self._known.popitem(last=False)
                self._size -= len(oldest) + _OVERHEAD

    def __len__(self) -> int:
        return len(self._known)
