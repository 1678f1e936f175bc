"""One text under the masks of an engine: what a logits processor and a loop of one's own have in common."""

from __future__ import annotations

from typing import Any

from constrained.automaton.bitmask import pack_ids, zero_mask
from constrained.bench.masks.engines.base import CompiledSchema, EngineFault, MaskTable
from constrained.vocabulary import Vocabulary


class MaskedSequence:
    """One sequence under the masks of an engine.

    Attributes:
        row: the mask computed last, int32 ``[1, ceil(vocabulary / 32)]``.
    """

    def __init__(self, compiled: CompiledSchema, vocabulary: Vocabulary) -> None:
        """Takes the engine's state before any token.

        Args:
            compiled: the schema.
            vocabulary: of the model.
        """
        self.row: MaskTable = zero_mask(vocabulary.size, 1)
        self._compiled = compiled
        self._eos_mask = pack_ids(vocabulary.eos_ids, vocabulary.size)
        (self._target,) = compiled.targets(self.row)
        self._state: Any = compiled.start()

    def fill(self) -> MaskTable:
        """The mask of what may come next, ends of sequence included; it is overwritten by the next one.

        Raises:
            EngineFault: the engine complains, or allows nothing.
        """
        compiled = self._compiled
        compiled.fill(self._state, *self._target)
        compiled.check(self._state)
        if compiled.complete is not None and compiled.complete(self._state):
            self.row |= self._eos_mask
        if not self.row.any():
            raise EngineFault("the mask allows nothing")
        return self.row

    def commit(self, token: int) -> None:
        """Goes on by a token that is no end of sequence.

        Raises:
            EngineFault: the engine refuses it, or complains.
        """
        result = self._compiled.commit(self._state, token)
        if result is False or (not self._compiled.in_place and result == 0):
            raise EngineFault(f"token {token} is refused")
        if not self._compiled.in_place:
            self._state = result
        self._compiled.check(self._state)
