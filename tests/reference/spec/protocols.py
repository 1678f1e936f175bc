"""What the reference drafter needs of an automaton and of a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

DEAD = 0
"""The state without transitions."""


class Vocabulary(Protocol):
    """A vocabulary."""

    @property
    def tokens(self) -> Sequence[bytes]:
        """Bytes by token id; empty for special tokens."""

    @property
    def eos_ids(self) -> Sequence[int]:
        """Ids that end a sequence."""

    @property
    def ids_by_bytes(self) -> dict[bytes, int]:
        """The lowest id of each token's bytes."""


class Automaton(Protocol):
    """A token automaton."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of its tokens."""

    @property
    def start(self) -> int:
        """The initial state."""

    def next(self, state: int, token: int) -> int:
        """The state after a token, `DEAD` if it is not allowed."""

    def forced(self, state: int) -> bytes:
        """The longest common prefix of all completions."""
