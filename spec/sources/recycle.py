"""The model's own runners-up: what it found likely after a token the last time (Token Recycling, Luo et al. 2024)."""

from __future__ import annotations

from spec.place import Place
from spec.sources.base import Guess, Source

Rows = dict[int, tuple[int, ...]]
"""Token -> the model's favourites after it, best first."""


class Recycle(Source):
    """Guesses by the last token alone.

    Attributes:
        rows: what the model said.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def propose(self, place: Place) -> list[Guess]:
        """The favourites after the last token."""
        row = self.rows.get(place.tail[-1]) if place.tail else None
        return [(token, 0.3 / (rank + 1) ** 1.5, rank) for rank, token in enumerate(row or ())]
