"""The model's own runners-up: what it found likely after a token the last time (Token Recycling, Luo et al. 2024)."""

from __future__ import annotations

from tests.reference.spec.context import DraftContext
from tests.reference.spec.sources.base import DraftSource, DraftToken

RecycledTokens = dict[int, tuple[int, ...]]
"""Token -> the model's favourites after it, best first."""


class TokenRecycling(DraftSource):
    """Guesses by the last token alone.

    Attributes:
        rows: what the model said.
    """

    def __init__(self, rows: RecycledTokens) -> None:
        self.rows = rows

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The favourites after the last token."""
        row = self.rows.get(place.recent_tokens[-1]) if place.recent_tokens else None
        return [(token, 0.3 / (rank + 1) ** 1.5, rank) for rank, token in enumerate(row or ())]
