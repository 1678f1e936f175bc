"""The tokens that an automaton allows in one of its states, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.protocol import DEAD, NO_LIMIT
from constrained.sampling import Candidates

if TYPE_CHECKING:
    from constrained.automaton import Automaton


class AutomatonCandidates(Candidates):
    """The tokens after which a sequence can still be completed within its budget.

    With `Automaton.expensive_membership` no mask is computed unless a sampler reads `ids`.
    """

    def __init__(self, automaton: Automaton, state: int, budget: int) -> None:
        """Creates the candidates of a state.

        Args:
            automaton: decides.
            state: one of its states, not dead.
            budget: tokens that may follow, an end of sequence not counted.
        """
        self.automaton = automaton
        self.state = state
        self.budget = budget
        self.checks = 0
        self.eos_ids = automaton.vocabulary.eos_ids
        self._ids: NDArray[np.intp] | None = None
        self._limit_refused = False

    @property
    def expensive_membership(self) -> bool:  # type: ignore[override]
        """As of the automaton, except where only ends can follow: these are known."""
        return self.automaton.expensive_membership and not self.only_ends

    @property
    def cached(self) -> bool:
        """Whether `ids` has been read, or the automaton has the mask."""
        return self._ids is not None or self.automaton.has_mask(self.state)

    @property
    def ids(self) -> NDArray[np.intp]:
        """All allowed ids, ascending; empty in a dead end, which only a predicate has."""
        if self._ids is None:
            self._mask = self.automaton.new_mask()
            self.automaton.fill_mask_within(self.state, self._mask, self.budget)
            self._ids = unpack_ids(self._mask)
            self.checks += self.automaton.vocabulary.size if self.automaton.expensive_membership else 1
        return self._ids

    def permits(self, token: int) -> bool:
        """Whether one token is allowed, by one transition."""
        self.checks += 1
        if token in self.eos_ids:
            return self.automaton.accepts(self.state)
        if self.budget > 0 and self.automaton.next_within(self.state, token, self.budget) != DEAD:
            return True
        if not self._limit_refused and self.budget < NO_LIMIT:
            self._limit_refused = self.automaton.next(self.state, token) != DEAD
        return False

    @property
    def limit_excludes(self) -> bool:
        """Whether the queries so far met a token that only the budget forbids. Compares masks if `ids` was read."""
        if self._limit_refused or self._ids is None or self.budget >= NO_LIMIT:
            return self._limit_refused
        if not self.automaton.limit_may_exclude(self.state, self.budget):
            return False
        if self.only_ends:
            self._limit_refused = not self.without_limit().only_ends
            return self._limit_refused
        mask = self.automaton.new_mask()
        self.automaton.fill_mask(self.state, mask)
        self._limit_refused = not np.array_equal(mask, self._mask)
        return self._limit_refused

    def without_limit(self) -> AutomatonCandidates:
        """The candidates of the state without a budget."""
        return AutomatonCandidates(self.automaton, self.state, NO_LIMIT)

    @cached_property
    def only_ends(self) -> bool:  # type: ignore[override]
        """Whether only an end of sequence can follow. Computes no mask where the text is not complete.

        Under a predicate, as far as its grammar and the token limit tell: the predicate is not asked about every token.
        """
        if self.automaton.expensive_membership:
            only = self.automaton.only_eos(self.state, self.budget)
        elif not self.automaton.accepts(self.state):
            only = False
        else:
            only = self.budget < 1 or _is_subset(self.ids, self.eos_ids)
        if only and self._ids is None:
            self._ids = np.array(sorted(self.eos_ids), dtype=np.intp)
        return only


def _is_subset(ids: NDArray[np.intp], eos: Sequence[int]) -> bool:
    return 0 < len(ids) <= len(eos) and all(int(token) in eos for token in ids)
