"""Answers that are known already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

_OVERHEAD = 200
"""Bytes of an entry besides its text."""


class VerdictCache:
    """Answers by question and text; the ones that were not needed for longest go first. Safe to share."""

    def __init__(self, limit: int) -> None:
        """Starts empty.

        Args:
            limit: bytes to keep at most, the size of the texts counted.
        """
        self._limit = limit
        self._size = 0
        self._known: OrderedDict[tuple[Hashable, str | bytes], bool] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, question: Hashable, text: str | bytes) -> bool | None:
        """The answer, or None if it is not known."""
        with self._lock:
            answer = self._known.get((question, text))
            if answer is not None:
                self._known.move_to_end((question, text))
            return answer

    def put(self, question: Hashable, text: str | bytes, answer: bool) -> None:
        """Remembers an answer."""
        with self._lock:
            if (question, text) not in self._known:
                self._size += len(text) + _OVERHEAD
            self._known[question, text] = answer
            while self._size > self._limit and self._known:
                (_, oldest), _ = self._known.popitem(last=False)
                self._size -= len(oldest) + _OVERHEAD

    def __len__(self) -> int:
        return len(self._known)
