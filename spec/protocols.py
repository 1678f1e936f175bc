"""Protocols of the automaton and the vocabulary that speculation uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


class DraftVocabulary(Protocol):
    """A vocabulary."""

    @property
    def tokens(self) -> Sequence[bytes]:
        """Bytes by token id; empty for special tokens."""

    @property
    def eos_ids(self) -> Sequence[int]:
        """Ids that end a sequence."""


class DraftAutomaton(Protocol):
    """A token automaton that the native drafter can follow."""

    @property
    def vocabulary(self) -> DraftVocabulary:
        """The vocabulary of its tokens."""

    @property
    def start(self) -> int:
        """The initial state."""

    @property
    def automaton_table(self) -> CapsuleType:
        """Its transition functions as a C table, see spec/_core/automaton_table.hpp."""
