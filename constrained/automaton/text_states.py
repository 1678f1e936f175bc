"""Automaton states that stand for whole prefixes, in a cache of bounded size with least-recently-used eviction.

Must not know: predicates, automata.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from constrained.errors import ConstraintTooLarge, Problem
from constrained.lru_cache import LRUCache

_OVERHEAD = 500
"""Approximate bytes of a state in addition to its text."""


@dataclass(frozen=True, slots=True)
class TextState:
    """A prefix.

    Attributes:
        text: the bytes of the prefix.
        relaxed_state: the state of the relaxed automaton after it.
        parent, token: the transition that led here.
    """

    text: bytes
    relaxed_state: int
    parent: int
    token: int


class TextStateCache:
    """Text states by number. Numbers are not reused; thread-safe.

    A state stores its whole text, so it is independent of its parents. The number of an evicted state is invalid; an
    equal text that is reached later gets a new number.
    """

    def __init__(self, first: int, start: TextState, limit: int) -> None:
        """Creates a cache with one state, which is never evicted.

        Args:
            first: number of that state; other numbers are higher.
            start: that state.
            limit: approximate bytes of all states.
        """
        self._first = first
        self._start = start
        self._limit = limit
        self._next = first + 1
        self._states: LRUCache[int, TextState] = LRUCache(
            limit, size=lambda _, state: len(state.text) + _OVERHEAD, evicted=self._forget
        )
        self._after: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def _forget(self, number: int, state: TextState) -> None:
        del self._after[state.parent, state.token]

    def __len__(self) -> int:
        return len(self._states) + 1

    @property
    def bytes(self) -> int:
        """Approximate size of all states."""
        return self._states.size

    def __getitem__(self, number: int) -> TextState:
        """The state with a number.

        Raises:
            ConstraintTooLarge: it was evicted.
        """
        if number == self._first:
            return self._start
        state = self._states.get(number)
        if state is not None:
            return state
        raise ConstraintTooLarge(
            "the state of a sequence under a predicate was evicted while the sequence was unfinished",
            Problem(
                f"state {number}",
                f"states may take {self._limit >> 20} MiB, and newer states needed them",
            ),
            action="decode fewer sequences at a time, or shorter ones",
        )

    def child(self, before: int, token: int) -> int | None:
        """The number of the state after a token, if it is cached."""
        with self._lock:
            number = self._after.get((before, token))
            if number is not None:
                self._states.get(number)  # a use
            return number

    def intern(self, state: TextState) -> int:
        """The number of a state; a new one if the state is not cached."""
        with self._lock:
            cached = self._after.get((state.parent, state.token))
            if cached is not None:
                return cached
            number, self._next = self._next, self._next + 1
            self._after[state.parent, state.token] = number
            self._states.put(number, state)
            return number
