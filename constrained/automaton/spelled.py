"""The automaton over a vocabulary in which some bytes occur only inside longer tokens.

Molecules, proteins, characters without byte fallback: no token is the byte 0xC3, but one is the letter "é". A native
automaton completes a text byte by byte, so it would drop every text with such a byte. Here it runs over the vocabulary with
one token more for each of these bytes, which is never allowed, and a search (`constrained/_core/spelled_tokens.cpp`) decides
whether tokens of the vocabulary spell a completion. Must not know: grammars, models, samplers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from constrained import _core
from constrained.automaton.bitmask import Bitmask
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.errors import ConstraintTooLarge, Problem, UnsatisfiableConstraint
from constrained.lru_cache import LRUCache
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrained.constraint import Constraint

_MASK_CACHE_SIZE = 256


def complete_vocabulary(vocabulary: Vocabulary, missing: bytes) -> Vocabulary:
    """The vocabulary with a token for each of these bytes, after all others; one for each vocabulary."""
    with _lock:
        if vocabulary not in _completed:
            tokens = [*vocabulary.tokens, *(bytes([byte]) for byte in missing)]
            _completed[vocabulary] = Vocabulary.from_bytes(
                tokens, vocabulary.eos_ids, memory_limit=vocabulary.memory_limit, shards=vocabulary.shards
            )
        return _completed[vocabulary]


_completed: WeakKeyDictionary[Vocabulary, Vocabulary] = WeakKeyDictionary()
_lock = threading.Lock()


class SpelledAutomaton(Automaton):
    """What tokens of a vocabulary can spell of the language of an automaton over more tokens.

    States are those of the inner automaton. A token is allowed iff some sequence of tokens of the vocabulary completes
    the text after it. `shortest_completion` is exact where few texts can complete it in so few tokens; elsewhere it counts
    those of a completion with the fewest bytes that tokens spell, exactly from where few texts can: an upper bound.

    Raises:
        UnsatisfiableConstraint: no sequence of tokens spells a completion.
        ConstraintTooLarge: a search for one takes too long.
    """

    def __init__(
        self, inner: _core.BaseAutomaton, vocabulary: Vocabulary, constraint: Constraint | None = None
    ) -> None:
        """Restricts an automaton.

        Args:
            inner: over the tokens of `vocabulary`, followed by others.
            vocabulary: the tokens that are allowed.
            constraint: of the automaton.
        """
        self.inner = inner
        self.vocabulary = vocabulary
        self.constraint = constraint
        self._eos = frozenset(vocabulary.eos_ids)
        self._spelled = _core.SpelledTokens(inner, vocabulary.size)
        self._limited = False  # by the trial, which says itself what takes too long
        self._masks: LRUCache[tuple[int, int], Bitmask] = LRUCache(_MASK_CACHE_SIZE)
        self.shortest_completion(
            inner.start
        )  # raises where a search gives up: behind a token that is no completion
        if self.start == DEAD:
            raise UnsatisfiableConstraint(
                "no completion satisfies the constraint",
                Problem("vocabulary", "no sequence of tokens spells one"),
                action="use a vocabulary whose tokens spell it; some bytes occur only inside longer tokens",
            )

    @property
    def start(self) -> int:
        """The state of the empty prefix."""
        return self._alive(self.inner.start)

    def next(self, state: int, token: int) -> int:
        """See `Automaton.next`."""
        if not 0 <= token < self.vocabulary.size:
            return DEAD
        after = self.inner.next(state, token)
        return after if token in self._eos else self._alive(after)

    def accepts(self, state: int) -> bool:
        """See `Automaton.accepts`."""
        return self.inner.accepts(state)

    def shortest_completion(self, state: int) -> int:
        """See `Automaton.shortest_completion`."""
        with self._search_limits():
            return min(self._spelled.shortest_completion(state), NO_LIMIT)

    def fill_mask_within(self, state: int, mask: Bitmask, budget: int) -> None:
        """See `Automaton.fill_mask_within`."""
        budget = min(budget, NO_LIMIT)
        known = self._masks.get((state, budget))
        if known is None:
            known = self.new_mask()
            with self._search_limits():
                self._spelled.fill_mask_within(state, known, budget)
            self._masks.put((state, budget), known)
        np.asarray(mask)[:] = known

    def has_mask(self, state: int) -> bool:
        """Whether the mask of a state without a token limit is in the cache."""
        return (state, NO_LIMIT) in self._masks

    def forced(self, state: int) -> bytes:
        """A common prefix of all completions: that of the inner automaton."""
        return self.inner.forced(state)

    @property
    def needs_trial(self) -> bool:
        """Yes: how long searches take shows in no grammar."""
        return True

    def limit_work(self, steps: int | None) -> None:
        """As that of a native automaton."""
        self._limited = steps is not None
        self.inner.limit_work(steps)

    @property
    def last_work(self) -> int:
        """As that of a native automaton."""
        return self.inner.last_work

    def forks(self, state: int) -> int:
        """As that of a native automaton."""
        return self.inner.forks(state)

    @property
    def automaton_table(self) -> Any:
        """That of the inner automaton: draft tokens may lead to where no tokens go on, and are not drawn there."""
        return self.inner.automaton_table

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the inner automaton."""
        return self.inner.memory

    @property
    def outgrown(self) -> bool:
        """Whether the inner automaton is."""
        return self.inner.outgrown

    def _alive(self, state: int) -> int:
        with self._search_limits():
            return state if self._spelled.can_complete(state) else DEAD

    @contextmanager
    def _search_limits(self) -> Iterator[None]:
        try:
            yield
        except _core.TooLarge:
            if self._limited:
                raise
            raise ConstraintTooLarge(
                "no completion that tokens of the vocabulary spell was found",
                Problem(
                    "vocabulary", "the search took too many steps: some bytes occur only in longer tokens"
                ),
                action="simplify the constraint, or use a vocabulary with a token for each byte",
            ) from None
