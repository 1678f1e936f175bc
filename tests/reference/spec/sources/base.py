"""What a source is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tests.reference.spec.context import DraftContext

DraftToken = tuple[int, float, int]
"""(token, probability by the source's own account, kind of guess: 0 .. 2**24 - 1, for calibration)."""


class DraftSource(ABC):
    """Guesses which tokens follow a place of one text. What it says costs time at worst, and never changes a text."""

    @abstractmethod
    def propose(self, place: DraftContext) -> list[DraftToken]:
        """Guesses, each token at most once; they need not be allowed."""

    def learn(self, place: DraftContext, token: int) -> None:  # noqa: B027 - most sources have nothing to learn
        """The text went on with a token."""
