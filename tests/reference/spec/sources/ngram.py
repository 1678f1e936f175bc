"""Tokens that followed the last few tokens, by tables of several orders (STAND, ADED; hierarchical drafting).

Three scopes: this text and its prompt; texts of this constraint; all texts. What was verified is learned, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.spec.context import DraftContext
from tests.reference.spec.sources.base import DraftSource, DraftToken
from tests.reference.spec.sources.counts import ContextCounts, witten_bell_blend

NGRAM_ORDERS = (6, 5, 4, 3, 2, 1)
"""Lengths of contexts, in tokens."""


class TokenNGrams(DraftSource):
    """One scope.

    Attributes:
        counts: the table.
    """

    def __init__(self, counts: ContextCounts, scope: int = 0) -> None:
        """A source.

        Args:
            counts: the table of its scope.
            scope: a number that tells the scopes apart in the calibration.
        """
        self.counts = counts
        self._kinds = scope * 1024

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """What followed the longest contexts that are known."""
        get, tail = self.counts.entries.get, place.recent_tokens
        found = []
        for order in NGRAM_ORDERS:
            if order <= len(tail):
                entry = get(tail[-order:])
                if entry is not None:
                    found.append((order, entry))
        return witten_bell_blend(found, self._kinds) if found else []

    def learn(self, place: DraftContext, token: int) -> None:
        """Counts the token after the last few."""
        tail = place.recent_tokens
        for order in NGRAM_ORDERS:
            if order <= len(tail):
                self.counts.learn(tail[-order:], token)

    def learn_prompt(self, tokens: Sequence[int]) -> None:
        """Learns from a whole text: a prompt."""
        learn = self.counts.learn
        for at in range(1, len(tokens)):
            for order in NGRAM_ORDERS:
                if order <= at:
                    learn(tuple(tokens[at - order : at]), tokens[at])
