"""Masks on a device: a row is sent when it is first needed, and from then on a step sends one number a sequence.

Must not know: models, samplers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.automaton import mask_ids
from constrained.errors import InvalidArgument

if TYPE_CHECKING:
    import torch

    from constrained.automaton import TokenAutomaton
    from constrained.vocabulary import Vocabulary


class DeviceMaskCache:
    """Rows of a vocabulary on a device, int32, token t at bit ``t % 32`` of word ``t // 32``.

    A row's id never names another mask, so what was sent stays right for ever, also after the vocabulary dropped the
    row. When all places are taken, everything is forgotten and what is needed is sent again. For one thread.

    Attributes:
        table: all places, int32 ``[places, words]``; `places` tells which hold what.
        sent: rows sent so far.
    """

    def __init__(self, vocabulary: Vocabulary, device: Any = "cpu", *, slots: int = 4096) -> None:
        """An empty mirror.

        Args:
            vocabulary: whose rows.
            device: where to.
            slots: rows to hold at most; 4,096 rows of 131,072 tokens are 64 MiB.

        Raises:
            InvalidArgument: there is no place.
        """
        import torch

        if slots < 1:
            raise InvalidArgument(f"a mirror of {slots} rows holds nothing", action="pass places=1 or more")
        self._rows = vocabulary.masks
        self._place_of: dict[int, int] = {}
        self.table = torch.zeros((slots, self._rows.words), dtype=torch.int32, device=device)
        self.sent = 0

    def slots(
        self, automata: TokenAutomaton | Sequence[TokenAutomaton], states: Sequence[int]
    ) -> torch.Tensor:
        """Where in `table` the masks of states are, int32 ``[states]`` on the device; rows that are new are sent.

        Places hold until the next call, which may need them for other rows.

        Args:
            automata: the automaton of all states, or one for each; all of the mirror's vocabulary.
            states: their states.

        Raises:
            InvalidArgument: the states have more distinct masks than there are places.
        """
        import torch

        found = torch.from_numpy(np.array(self._held(automata, states), dtype=np.int32))
        return found.to(self.table.device, non_blocking=True)

    def masks(
        self, automata: TokenAutomaton | Sequence[TokenAutomaton], states: Sequence[int]
    ) -> torch.Tensor:
        """The masks of states, int32 ``[states, words]`` on the device; arguments and errors as for `places`."""
        return self.table.index_select(0, self.slots(automata, states))

    def _held(self, automata: Any, states: Sequence[int]) -> list[int]:
        """Places of the states' rows, all of them sent."""
        while True:
            ids = self._ids(automata, states)
            try:
                return [self._place_of[id] for id in ids]
            except KeyError:
                self._send(ids)  # and ask again: a row may have been dropped since

    def _ids(self, automata: Any, states: Sequence[int]) -> list[int]:
        if isinstance(automata, Sequence):
            return mask_ids(automata, states)
        found: list[int] = automata.mask_ids(states)
        return found

    def _send(self, ids: list[int]) -> None:
        """Copies the rows that are not here yet; none, if one of them was dropped."""
        import torch

        new = list(dict.fromkeys(id for id in ids if id not in self._place_of))
        if len(self._place_of) + len(new) > len(self.table):
            self._place_of.clear()
            new = list(dict.fromkeys(ids))
        if len(new) > len(self.table):
            raise InvalidArgument(
                f"{len(new)} distinct masks do not fit in {len(self.table)} places",
                action="pass more places",
            )
        host = torch.empty(
            (len(new), self._rows.words), dtype=torch.int32, pin_memory=self.table.device.type == "cuda"
        )
        if not self._rows.copy(new, host.numpy()):
            return
        begin = len(self._place_of)
        self.table[begin : begin + len(new)].copy_(host, non_blocking=True)
        self._place_of.update((id, begin + i) for i, id in enumerate(new))
        self.sent += len(new)
