"""The automaton over a vocabulary in which some bytes occur only inside longer tokens.

Molecules, proteins, characters without byte fallback: no token is the byte 0xC3, but one is the letter "é". A native
automaton completes a text byte by byte, so it would drop every text with such a byte. Here it runs over the vocabulary with
one token more for each of these bytes, which is never allowed, and a search decides whether tokens of the vocabulary
spell a completion. Must not know: grammars, models, samplers.
"""

from __future__ import annotations

import heapq
import math
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import Bitmask, pack_ids, unpack_ids
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.errors import ConstraintTooLarge, Problem, UnsatisfiableConstraint
from constrained.lru_cache import LRUCache
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrained.constraint import Constraint

_NEVER = math.inf
_FUEL = 1_000_000
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

    States are those of the inner automaton. Masks, lengths and `next` are exact: a token is allowed iff some sequence of
    tokens of the vocabulary completes the text after it. (Behind a lexer, lengths are those of short completions, as
    there.) Masks cost one transition for each token that the inner automaton allows. There are no draft tokens.

    Raises:
        UnsatisfiableConstraint: no sequence of tokens spells a completion.
        ConstraintTooLarge: a search for one takes too long.
    """

    def __init__(
        self, inner: Automaton, vocabulary: Vocabulary, constraint: Constraint | None = None
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
        self._need: dict[int, float] = {}  # tokens that a shortest completion takes, by state
        self._targets: LRUCache[int, NDArray[np.int64]] = LRUCache(_MASK_CACHE_SIZE)
        self._masks: LRUCache[tuple[int, int], Bitmask] = LRUCache(_MASK_CACHE_SIZE)
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
        need = self._needed(state)
        return NO_LIMIT if need == _NEVER else int(need)

    def fill_mask_within(self, state: int, mask: Bitmask, budget: int) -> None:
        """See `Automaton.fill_mask_within`."""
        known = self._masks.get((state, budget))
        if known is None:
            ids = self._allowed(state)
            targets = self._after(state, ids)
            need = {int(target): self._needed(int(target)) for target in np.unique(targets)}
            kept = [
                token
                for token, target in zip(ids.tolist(), targets.tolist(), strict=True)
                if token in self._eos or need[target] < min(budget, _NEVER)
            ]
            known = pack_ids(kept, self.vocabulary.size)
            self._masks.put((state, budget), known)
        np.asarray(mask)[:] = known

    def has_mask(self, state: int) -> bool:
        """Whether the mask of a state without a token limit is in the cache."""
        return (state, NO_LIMIT) in self._masks

    def forced(self, state: int) -> bytes:
        """A common prefix of all completions: that of the inner automaton."""
        return self.inner.forced(state)

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the inner automaton, and the number of states whose lengths are known."""
        return {**self.inner.memory, "spelled_states": len(self._need)}

    def _alive(self, state: int) -> int:
        return state if state != DEAD and self._needed(state) < _NEVER else DEAD

    def _allowed(self, state: int) -> NDArray[np.int64]:
        """The tokens of the vocabulary that the inner automaton allows."""
        mask = self.inner.new_mask()
        self.inner.fill_mask(state, mask)
        ids: NDArray[np.int64] = np.asarray(unpack_ids(mask), dtype=np.int64)
        return ids[ids < self.vocabulary.size]

    def _after(self, state: int, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The states after these tokens, int64 [n]."""
        step = self.inner.next
        return np.fromiter((step(state, token) for token in ids.tolist()), dtype=np.int64, count=len(ids))

    def _successors(self, state: int) -> NDArray[np.int64]:
        """The distinct states after one token of the vocabulary, ends of sequence left out."""
        known = self._targets.get(state)
        if known is None:
            ids = self._allowed(state)
            ids = ids[~np.isin(ids, list(self._eos))]
            known = np.unique(self._after(state, ids))
            known = known[known != DEAD]
            self._targets.put(state, known)
        return known

    def _needed(self, state: int) -> float:
        """Tokens of a shortest completion; infinity if no sequence of tokens completes the text."""
        if state == DEAD:
            return _NEVER
        known = self._need.get(state)
        return self._search(state) if known is None else known

    def _search(self, start: int) -> float:
        """A* from a state, where the lengths of the inner automaton, with more tokens, are lower bounds.

        If the search ends without a completion, no state that it met has one.
        """
        bound = self.inner.shortest_completion
        before = {start: start}
        cost = {start: 0}
        queue: list[tuple[float, int, int]] = [(bound(start), 0, start)]  # lower bound, -tokens so far, state
        ends: dict[int, float] = {}
        closed: set[int] = set()
        fuel = _FUEL
        while queue:
            total, taken, state = heapq.heappop(queue)
            if state in ends and total == ends[state] - taken:
                return self._remember(state, ends[state], before)
            if state in closed:
                continue
            closed.add(state)
            rest = 0.0 if self.inner.accepts(state) else self._need.get(state)
            if rest is not None:
                if rest < _NEVER:
                    ends[state] = rest
                    heapq.heappush(queue, (rest - taken, taken, state))
                continue
            targets = self._successors(state).tolist()
            fuel -= 1 + len(targets)
            for target in targets:
                if 1 - taken < cost.get(target, NO_LIMIT):
                    cost[target], before[target] = 1 - taken, state
                    heapq.heappush(queue, (1 - taken + bound(target), taken - 1, target))
            if fuel < 0:
                raise ConstraintTooLarge(
                    "no completion that tokens of the vocabulary spell was found",
                    Problem(
                        "vocabulary", f"the search took {_FUEL} steps: some bytes occur only in longer tokens"
                    ),
                    action="simplify the constraint, or use a vocabulary with a token for each byte",
                )
        for state in closed:
            self._need.setdefault(state, _NEVER)
        return _NEVER

    def _remember(self, state: int, rest: float, before: dict[int, int]) -> float:
        """Sets the lengths on the way to a state; returns that of the first one."""
        self._need[state] = rest
        while before[state] != state:
            state = before[state]
            rest += 1
            self._need[state] = rest
        return rest
