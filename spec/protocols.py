"""What drafting asks of an automaton and of a vocabulary, and nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

DEAD = 0
"""The state that nothing leads out of."""


class DraftVocabulary(Protocol):
    """A vocabulary."""

    @property
    def tokens(self) -> Sequence[bytes]:
        """Bytes by id; empty for an id that is never text."""

    @property
    def eos_ids(self) -> Sequence[int]:
        """Ids that end a text."""

    @property
    def ids_by_bytes(self) -> dict[bytes, int]:
        """The lowest id of each token's bytes."""


class DraftAutomaton(Protocol):
    """A token automaton: states are ints that never change their meaning, and `DEAD` is one of them."""

    @property
    def vocabulary(self) -> DraftVocabulary:
        """Over which tokens."""

    def next(self, state: int, token: int) -> int:
        """The state after a token, `DEAD` if it is not allowed."""

    def accepts(self, state: int) -> bool:
        """Whether the text so far is complete."""

    def forced(self, state: int) -> bytes:
        """What every completion begins with."""
