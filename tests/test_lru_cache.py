"""`LRUCache` against a list that is searched."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from constrained.lru_cache import LRUCache


class ListCache:
    """The same rules on a list, least recently used first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries: list[tuple[int, str]] = []

    def get(self, key: int) -> str | None:
        for entry in self.entries:
            if entry[0] == key:
                self.entries.remove(entry)
                self.entries.append(entry)
                return entry[1]
        return None

    def put(self, key: int, value: str) -> None:
        self.entries = [entry for entry in self.entries if entry[0] != key] + [(key, value)]
        while sum(len(value) for _, value in self.entries) > self.limit and len(self.entries) > 1:
            del self.entries[0]

    def setdefault(self, key: int, value: str) -> str:
        cached = self.get(key)
        if cached is None:
            self.put(key, value)
        return value if cached is None else cached


@given(
    st.integers(0, 6),
    st.lists(
        st.tuples(st.sampled_from(["get", "put", "setdefault"]), st.integers(0, 4), st.text("ab", max_size=4))
    ),
)
def test_it_keeps_what_a_list_keeps(limit: int, calls: list[tuple[str, int, str]]) -> None:
    reference = ListCache(limit)
    evicted: list[int] = []
    cache: LRUCache[int, str] = LRUCache(
        limit, size=lambda _, value: len(value), evicted=lambda key, _: evicted.append(key)
    )
    for name, key, value in calls:
        before = {number for number, _ in reference.entries}
        evicted.clear()
        arguments = (key,) if name == "get" else (key, value)
        assert getattr(cache, name)(*arguments) == getattr(reference, name)(*arguments)
        assert [number for number in range(5) if number in cache] == sorted(
            number for number, _ in reference.entries
        )
        assert cache.size == sum(len(value) for _, value in reference.entries)
        assert len(cache) == len(reference.entries)
        assert set(evicted) == before - {number for number, _ in reference.entries} - {key}


def test_each_entry_counts_one_by_default() -> None:
    cache: LRUCache[str, int] = LRUCache(2)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert ("a" in cache, "b" in cache, "c" in cache) == (False, True, True)
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_threads_agree_on_one_value() -> None:
    cache: LRUCache[int, object] = LRUCache(100)
    values: list[list[object]] = []

    def fill() -> None:
        values.append([cache.setdefault(key, object()) for key in range(100)])

    threads = [threading.Thread(target=fill) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 8
    assert all(found == values[0] for found in values)


def test_values_are_freed_outside_of_the_lock():
    """What is freed can take long, and ask the cache itself in another thread."""
    cache: LRUCache[str, object] = LRUCache(1)
    waited: list[bool] = []

    class Value:
        def __del__(self) -> None:
            asking = threading.Thread(target=cache.get, args=("x",))
            asking.start()
            asking.join(5)
            waited.append(asking.is_alive())

    for change in (
        lambda: cache.put("b", 1),
        lambda: cache.put("a", 1),
        lambda: cache.setdefault("b", 1),
        lambda: cache.discard("a"),
        cache.clear,
    ):
        cache.clear()
        cache.put("a", Value())
        change()
    assert waited == [False] * 5
