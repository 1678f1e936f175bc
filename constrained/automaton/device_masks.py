"""Masks on a device: a mask is sent when it is first needed; later steps send one slot number per sequence.

Must not know: models, samplers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained import _core
from constrained.automaton import Automaton, mask_ids
from constrained.errors import InvalidArgument, ModelMismatch

if TYPE_CHECKING:
    import torch

    from constrained.vocabulary import Vocabulary


def vocabulary_of_masks(automata: Sequence[Automaton]) -> Vocabulary | None:
    """The vocabulary that has the masks of all these automata, for `DeviceMaskCache`.

    An automaton may be over another `Vocabulary` than the one it was asked for: an equal one, if it was compiled before, or one
    with special tokens.

    Returns:
        None: their masks have no ids, or are in several vocabularies.
    """
    vocabulary = automata[0].vocabulary
    if all(
        isinstance(one, _core.BaseAutomaton) and one.vocabulary.core is vocabulary.core for one in automata
    ):
        return vocabulary
    return None


class DeviceMaskCache:
    """Masks of a vocabulary in a table on a device.

    A mask id never names two masks, so a mask on the device stays valid after the vocabulary evicts it. When all
    slots are taken, the table is cleared and the masks that are needed are sent again. For use by one thread.

    Attributes:
        table: the masks, int32 ``[slots, words]``; token t is bit ``t % 32`` of word ``t // 32``.
        sent: number of masks sent so far.
    """

    def __init__(self, vocabulary: Vocabulary, device: Any = "cpu", *, slots: int = 4096) -> None:
        """Allocates the table.

        Args:
            vocabulary: of all automata, ``automaton.vocabulary``.
            device: a torch device.
            slots: capacity in masks; 4,096 masks over 131,072 tokens take 64 MiB.

        Raises:
            InvalidArgument: `slots` is less than 1.
        """
        import torch

        if slots < 1:
            raise InvalidArgument(
                f"a mask table needs at least one slot, not {slots}", action="pass slots=1 or more"
            )
        self._core, self._masks = vocabulary.core, vocabulary.masks
        self._slot_of: dict[int, int] = {}
        self.table = torch.zeros((slots, self._masks.words), dtype=torch.int32, device=device)
        self.sent = 0

    def slots(self, automata: Automaton | Sequence[Automaton], states: Sequence[int]) -> torch.Tensor:
        """The slots of the masks of states, int32 ``[states]`` on the device; masks that are missing are sent.

        Slots are valid until the next call, which may overwrite them.

        Args:
            automata: the automaton of all states, or one for each; all over the vocabulary of the cache.
            states: their states.

        Raises:
            InvalidArgument: the states have more distinct masks than there are slots.
            UnsupportedConstraint: an automaton has no mask ids.
            ModelMismatch: an automaton is over another `Vocabulary`, even an equal one: ids are those of its own masks.
        """
        import torch

        slots = torch.from_numpy(np.array(self._ensure_sent(automata, states), dtype=np.int32))
        if self.table.device.type == "cuda":
            slots = slots.pin_memory()  # from other memory the copy would wait for the device
        return slots.to(self.table.device, non_blocking=True)

    def masks(self, automata: Automaton | Sequence[Automaton], states: Sequence[int]) -> torch.Tensor:
        """The masks of states, int32 ``[states, words]`` on the device; arguments and errors as for `slots`."""
        return self.table.index_select(0, self.slots(automata, states))

    def _ensure_sent(self, automata: Automaton | Sequence[Automaton], states: Sequence[int]) -> list[int]:
        for automaton in automata if isinstance(automata, Sequence) else [automata]:
            if automaton.vocabulary.core is not self._core:
                raise ModelMismatch(
                    "the automaton's masks are in another vocabulary than those of this cache",
                    action="make the cache of automaton.vocabulary",
                )
        while True:
            ids = mask_ids(automata, states) if isinstance(automata, Sequence) else automata.mask_ids(states)
            try:
                return [self._slot_of[id] for id in ids]
            except KeyError:
                self._send(ids)  # and read the ids again: a mask may have been evicted since

    def _send(self, ids: list[int]) -> None:
        """Copies the missing masks to the device; none of them if one was evicted."""
        import torch

        new = list(dict.fromkeys(id for id in ids if id not in self._slot_of))
        if len(self._slot_of) + len(new) > len(self.table):
            self._slot_of.clear()
            new = list(dict.fromkeys(ids))
        if len(new) > len(self.table):
            raise InvalidArgument(
                f"{len(new)} distinct masks do not fit in {len(self.table)} slots",
                action="pass more slots",
            )
        host = torch.empty(
            (len(new), self._masks.words), dtype=torch.int32, pin_memory=self.table.device.type == "cuda"
        )
        if not self._masks.copy(new, host.numpy()):
            return
        first = len(self._slot_of)
        self.table[first : first + len(new)].copy_(host, non_blocking=True)
        self._slot_of.update((id, first + i) for i, id in enumerate(new))
        self.sent += len(new)
