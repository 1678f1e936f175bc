"""States that stand for the text so far, in a bounded memory: those that were not needed for longest go first.

Must not know: what a state is good for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from constrained.errors import ConstraintTooLarge, Problem

_OVERHEAD = 500
"""Bytes of a state besides its text, about."""


@dataclass(frozen=True, slots=True)
class TextState:
    """What a state stands for.

    Attributes:
        text: all bytes so far.
        relaxed_state: the state of another automaton that goes along with it.
        parent, token: the state and the token that it was reached by.
    """

    text: bytes
    relaxed_state: int
    parent: int
    token: int


class TextStateCache:
    """States by their numbers. A number is never used twice; safe to share.

    A state holds its whole text, so that it does not need those before it. Of one that was forgotten the number means
    nothing any more; the same text, reached again, gets another one.
    """

    def __init__(self, first: int, start: TextState, limit: int) -> None:
        """Starts with one state, which is never forgotten.

        Args:
            first: its number; those of others are higher.
            start: what it stands for.
            limit: bytes that all states may take, about.
        """
        self._first = first
        self._start = start
        self._limit = limit
        self._next = first + 1
        self._size = 0
        self._held: OrderedDict[int, TextState] = OrderedDict()
        self._after: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held) + 1

    @property
    def bytes(self) -> int:
        """What they take, about."""
        return self._size

    def __getitem__(self, number: int) -> TextState:
        """What a state stands for.

        Raises:
            ConstraintTooLarge: it was forgotten.
        """
        if number == self._first:
            return self._start
        with self._lock:
            state = self._held.get(number)
            if state is not None:
                self._held.move_to_end(number)
                return state
        raise ConstraintTooLarge(
            "a text under a predicate was forgotten while it was being written",
            Problem(
                f"state {number}",
                f"all states may take {self._limit >> 20} MiB, and others were needed since",
            ),
            action="write fewer texts side by side, or shorter ones",
        )

    def child(self, before: int, token: int) -> int | None:
        """The state that was reached by a token, if it is known."""
        with self._lock:
            known = self._after.get((before, token))
            if known is not None:
                self._held.move_to_end(known)
            return known

    def intern(self, state: TextState) -> int:
        """The number of a state, which it may have already."""
        with self._lock:
            known = self._after.get((state.parent, state.token))
            if known is not None:
                return known
            number, self._next = self._next, self._next + 1
            self._held[number] = state
            self._after[state.parent, state.token] = number
            self._size += len(state.text) + _OVERHEAD
            while self._size > self._limit and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                del self._after[oldest.parent, oldest.token]
                self._size -= len(oldest.text) + _OVERHEAD
            return number
