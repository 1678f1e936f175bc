"""A cache of bounded size that evicts the least recently used entries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """Values by key; adding one evicts the least recently used ones beyond the limit. Thread-safe.

    The newest entry is never evicted, even if it exceeds the limit alone. Values are freed outside of the lock: that of an
    automaton takes long.
    """

    def __init__(
        self,
        limit: int,
        *,
        size: Callable[[K, V], int] | None = None,
        evicted: Callable[[K, V], None] | None = None,
    ) -> None:
        """Creates an empty cache.

        Args:
            limit: of the sizes of all entries.
            size: the size of an entry, which must not change; None: each entry counts 1.
            evicted: called with each evicted entry, while the cache is locked.
        """
        self._limit = limit
        self._size_of = size or (lambda key, value: 1)
        self._evicted = evicted
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._size = 0
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """The sum of the sizes of all entries."""
        return self._size

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether there is an entry; does not count as a use."""
        return key in self._entries

    def get(self, key: K) -> V | None:
        """The value of a key, or None; counts as a use."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: K, value: V) -> None:
        """Stores a value, which replaces that of an equal key."""
        with self._lock:
            removed = self._put(key, value)
        del removed

    def setdefault(self, key: K, value: V) -> V:
        """The value of a key; stores the given one if there is none."""
        removed: list[V] = []
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            else:
                removed = self._put(key, value)
            found = self._entries[key]
        del removed
        return found

    def items(self) -> list[tuple[K, V]]:
        """The entries now, the least recently used one first; does not count as a use."""
        with self._lock:
            return list(self._entries.items())

    def discard(self, key: K) -> None:
        """Removes an entry if there is one, without calling `evicted`."""
        with self._lock:
            removed = [self._entries.pop(key)] if key in self._entries else []
            self._size -= sum(self._size_of(key, value) for value in removed)
        del removed

    def clear(self) -> None:
        """Removes all entries, without calling `evicted`."""
        with self._lock:
            removed, self._entries = self._entries, OrderedDict()
            self._size = 0
        del removed

    def _put(self, key: K, value: V) -> list[V]:
        """Stores a value; returns those that are no longer in the cache."""
        removed = []
        if key in self._entries:
            removed.append(self._entries[key])
            self._size -= self._size_of(key, self._entries[key])
        self._entries[key] = value
        self._entries.move_to_end(key)
        self._size += self._size_of(key, value)
        while self._size > self._limit and len(self._entries) > 1:
            oldest, last = self._entries.popitem(last=False)
            removed.append(last)
            self._size -= self._size_of(oldest, last)
            if self._evicted is not None:
                self._evicted(oldest, last)
        return removed
