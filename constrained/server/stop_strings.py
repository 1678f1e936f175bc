"""`StopStrings`: texts of ``stop`` in a completion under a constraint.

A stop string ends such a completion at the first place where the text before it satisfies the constraint; everywhere else it is
text like any other. So the completion always satisfies the constraint: JSON is never cut, free text around tags is. (Where all of
the text is free, stop strings are part of the grammar: see `constrained.chat.reply`.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from constrained.errors import VocabularyError

if TYPE_CHECKING:
    from constrained.automaton import Automaton

MAX_STOPS = 64
"""Stop strings of a request: each of them is looked for after every token."""

MAX_STOP_LENGTH = 1024
"""Characters of a stop string."""


class StopStrings:
    """Reads one completion, token by token.

    Attributes:
        found: the stop string that ended the completion; None before.
    """

    def __init__(self, stops: Sequence[str], automaton: Automaton) -> None:
        """Nothing is read yet.

        Args:
            stops: at least one; none is empty.
            automaton: of the constraint.
        """
        # Of those that end at the same place, the longest one counts.
        self._stops = sorted({stop.encode() for stop in stops}, key=len, reverse=True)
        self._automaton = automaton
        self._text = bytearray()
        self._released = 0
        self._ends, self._states = [0], [automaton.start]  # after each token: bytes, and the state
        self.found: str | None = None

    def feed(self, data: bytes, state: int) -> bytes:
        """Reads a token.

        Args:
            data: its bytes.
            state: of the automaton after it.

        Returns:
            The bytes that are part of the completion for certain, and were not returned before.
        """
        before = len(self._text)
        self._text += data
        self._ends.append(len(self._text))
        self._states.append(state)
        for end in range(before + 1, len(self._text) + 1):
            for stop in self._stops:
                if self._text.endswith(stop, 0, end) and self._is_complete(end - len(stop)):
                    self.found = stop.decode()
                    return self._release(end - len(stop))
        return self._release(len(self._text) - self._held())

    def finish(self) -> bytes:
        """The bytes that were held back, when the completion has ended without a stop string."""
        return b"" if self.found is not None else self._release(len(self._text))

    def _is_complete(self, offset: int) -> bool:
        """Whether the first bytes of the text satisfy the constraint."""
        if offset < self._released:  # a stop string cannot begin in what was returned
            return False
        token = bisect_right(self._ends, offset) - 1
        state, rest = self._states[token], bytes(self._text[self._ends[token] : offset])
        if rest:
            try:
                ids = self._automaton.vocabulary.encode(rest)
            except VocabularyError:  # no tokens have these bytes: such a text cannot be written
                return False
            states = self._automaton.walk(state, ids)
            if len(states) < len(ids):
                return False
            state = states[-1]
        return self._automaton.accepts(state)

    def _held(self) -> int:
        """Length of the longest suffix with which a stop string may begin."""
        longest = min(len(self._stops[0]) - 1, len(self._text) - self._released)
        suffixes = (bytes(self._text[-n:]) for n in range(longest, 0, -1))
        return next((len(one) for one in suffixes if any(stop.startswith(one) for stop in self._stops)), 0)

    def _release(self, end: int) -> bytes:
        new = bytes(self._text[self._released : end])
        self._released = max(self._released, end)
        return new
