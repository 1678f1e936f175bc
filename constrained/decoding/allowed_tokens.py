"""What an automaton allows in one of its states, with a limit on the tokens that may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.sampling import Candidates

if TYPE_CHECKING:
    from constrained.automaton import TokenAutomaton

DEAD = 0


class AutomatonCandidates(Candidates):
    """The tokens after which a text can still be completed in time.

    An automaton may say that questions are dear: `checks_are_costly`; then no mask is made unless a sampler wants
    one, and `only_end(state, budget)` tells where nothing but the end can follow (it may say no where it does not
    know: then the model is asked).
    """

    def __init__(self, automaton: TokenAutomaton, state: int, budget: int) -> None:
        """Asks nothing yet.

        Args:
            automaton: knows the language.
            state: one of its states, not dead.
            budget: tokens that may follow, an end of sequence not counted.
        """
        self.automaton = automaton
        self.state = state
        self.budget = budget
        self.expensive_membership = bool(getattr(automaton, "checks_are_costly", False))
        self.checks = 0
        self._eos = automaton.vocabulary.eos_ids
        self._ids: NDArray[np.intp] | None = None

    @property
    def cached(self) -> bool:
        """Whether `ids` has been asked for, or the automaton has the row."""
        if self._ids is not None:
            return True
        has_mask = getattr(self.automaton, "has_mask", None)
        return has_mask is not None and bool(has_mask(self.state))

    @property
    def ids(self) -> NDArray[np.intp]:
        """All allowed ids, ascending; empty in a dead end, which only a predicate has."""
        if self._ids is None:
            row = np.zeros((self.automaton.vocabulary.size + 31) // 32, dtype=np.int32)
            self.automaton.fill_mask_within(self.state, row, self.budget)
            self._ids = unpack_mask(row)
            self.checks += self.automaton.vocabulary.size if self.expensive_membership else 1
        return self._ids

    def permits(self, token: int) -> bool:
        """One transition, and whether what is then needed fits into the budget."""
        self.checks += 1
        if token in self._eos:
            return self.automaton.accepts(self.state)
        if self.budget < 1:
            return False
        if self.expensive_membership:
            return self.automaton.next_within(self.state, token, self.budget) != DEAD  # type: ignore[attr-defined, no-any-return]
        after = self.automaton.next(self.state, token)
        return after != DEAD and self.automaton.shortest_completion(after) < self.budget

    def only_eos(self) -> bool:
        """Whether nothing but the end can follow. Where a text is not complete, this takes no mask."""
        if not self.automaton.accepts(self.state):
            return False
        if self.budget < 1:
            return True
        if self.expensive_membership:
            tells = getattr(self.automaton, "only_end", None)
            return tells is not None and bool(tells(self.state, self.budget))
        return only_eos_ids(self.ids, self._eos)


def only_eos_ids(ids: NDArray[np.intp], eos: tuple[int, ...] | list[int]) -> bool:
    """Whether there are ends of sequence among the ids and nothing else."""
    return 0 < len(ids) <= len(eos) and all(int(token) in eos for token in ids)


def unpack_mask(row: NDArray[np.int32]) -> NDArray[np.intp]:
    """The ids in a mask row (bit t % 32 of word t // 32), ascending."""
    bits = np.unpackbits(row.astype("<i4", copy=False).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits.view(np.bool_))  # as truth values they are found several times faster
