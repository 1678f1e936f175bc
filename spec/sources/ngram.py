"""Tokens that followed the last few tokens, by tables of several orders (STAND, ADED; hierarchical drafting).

Three scopes: this text and its prompt; texts of this constraint; all texts. What was verified is learned, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from spec.place import Place
from spec.sources.base import Guess, Source
from spec.sources.counts import Counts, blend

ORDERS = (6, 5, 4, 3, 2, 1)
"""Lengths of contexts, in tokens."""


class NGram(Source):
    """One scope.

    Attributes:
        counts: the table.
    """

    def __init__(self, counts: Counts, scope: int = 0) -> None:
        """A source.

        Args:
            counts: the table of its scope.
            scope: a number that tells the scopes apart in the calibration.
        """
        self.counts = counts
        self._kinds = scope * 1024

    def propose(self, place: Place) -> list[Guess]:
        """What followed the longest contexts that are known."""
        get, tail = self.counts.entries.get, place.tail
        found = []
        for order in ORDERS:
            if order <= len(tail):
                entry = get(tail[-order:])
                if entry is not None:
                    found.append((order, entry))
        return blend(found, self._kinds) if found else []

    def learn(self, place: Place, token: int) -> None:
        """Counts the token after the last few."""
        tail = place.tail
        for order in ORDERS:
            if order <= len(tail):
                self.counts.learn(tail[-order:], token)

    def read(self, tokens: Sequence[int]) -> None:
        """Learns from a whole text: a prompt."""
        learn = self.counts.learn
        for at in range(1, len(tokens)):
            for order in ORDERS:
                if order <= at:
                    learn(tuple(tokens[at - order : at]), tokens[at])
