"""The automaton of a grammar whose texts must also satisfy predicates, which are functions of the user.

A membership query is cheap: `next` follows the grammar's automaton, and calls the predicates only for tokens that the
grammar allows. A mask calls them for every token that the grammar allows, so `expensive_membership` is set.
Must not know: models, samplers, how predicates are called.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from constrained.automaton.bitmask import Bitmask, pack_ids, unpack_ids
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.errors import ConstraintTooLarge, Problem, UnsatisfiableConstraint
from constrained.lru_cache import LRUCache

if TYPE_CHECKING:
    from constrained.constraint import PredicateConstraint
    from constrained.predicates import CheckKind

_OVERHEAD = 500
"""Approximate bytes of a state in addition to its text."""


@dataclass(frozen=True, slots=True)
class TextState:
    """A prefix.

    Attributes:
        text: the bytes of the prefix.
        relaxed_state: the state of the relaxed automaton after it.
        parent, token: the transition that led here.
    """

    text: bytes
    relaxed_state: int
    parent: int
    token: int


class TextStateCache:
    """Text states by number. Numbers are not reused; thread-safe.

    A state stores its whole text, so it is independent of its parents. The number of an evicted state is invalid; an
    equal text that is reached later gets a new number.
    """

    def __init__(self, first: int, start: TextState, limit: int) -> None:
        """Creates a cache with one state, which is never evicted.

        Args:
            first: number of that state; other numbers are higher.
            start: that state.
            limit: approximate bytes of all states.
        """
        self._first = first
        self._start = start
        self._limit = limit
        self._next = first + 1
        self._states: LRUCache[int, TextState] = LRUCache(
            limit, size=lambda _, state: len(state.text) + _OVERHEAD, evicted=self._forget
        )
        self._after: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def _forget(self, number: int, state: TextState) -> None:
        del self._after[state.parent, state.token]

    def __len__(self) -> int:
        return len(self._states) + 1

    @property
    def bytes(self) -> int:
        """Approximate size of all states."""
        return self._states.size

    def __getitem__(self, number: int) -> TextState:
        """The state with a number.

        Raises:
            ConstraintTooLarge: it was evicted.
        """
        if number == self._first:
            return self._start
        state = self._states.get(number)
        if state is not None:
            return state
        raise ConstraintTooLarge(
            "the state of a sequence under a predicate was evicted while the sequence was unfinished",
            Problem(
                f"state {number}",
                f"states may take {self._limit >> 20} MiB, and newer states needed them",
            ),
            action="decode fewer sequences at a time, or shorter ones",
        )

    def child(self, before: int, token: int) -> int | None:
        """The number of the state after a token, if it is cached."""
        with self._lock:
            number = self._after.get((before, token))
            if number is not None:
                self._states.get(number)  # a use
            return number

    def intern(self, state: TextState) -> int:
        """The number of a state; a new one if the state is not cached."""
        with self._lock:
            cached = self._after.get((state.parent, state.token))
            if cached is not None:
                return cached
            number, self._next = self._next, self._next + 1
            self._after[state.parent, state.token] = number
            self._states.put(number, state)
            return number


_ENDED = 1
_START = 2

_STATES_LIMIT = 64 << 20
_ONLY_EOS_CACHE_SIZE = 1 << 16
_MASK_CACHE_SIZE = 256


class PredicateAutomaton(Automaton):
    """The intersection of a grammar's automaton with predicates on the text.

    A token is allowed if the grammar's automaton allows it and every predicate accepts the text with it: as a prefix,
    and also as a complete text where only an end of sequence could follow. A predicate that accepts a prefix without
    completions leads into a dead end: a live state in which nothing is allowed.
    `shortest_completion` and `forced` follow the grammar alone, so the first is a lower bound. The states that were
    least recently used are evicted when all of them take more than `memory_limit` bytes; the use of an evicted state
    raises `ConstraintTooLarge`.

    Raises:
        UnsatisfiableConstraint: a predicate rejects the empty prefix.
        PredicateError: a predicate raises, or does not return in time.
    """

    expensive_membership = True
    start = _START

    def __init__(
        self,
        relaxed_automaton: Automaton,
        constraint: PredicateConstraint,
        *,
        memory_limit: int = _STATES_LIMIT,
    ) -> None:
        """Intersects an automaton with the predicates of a constraint.

        Args:
            relaxed_automaton: the automaton of `constraint.inner`.
            constraint: the inner constraint and the predicates.
            memory_limit: bytes that the states may take.
        """
        self.constraint = constraint
        self.vocabulary = relaxed_automaton.vocabulary
        self._relaxed = relaxed_automaton
        self._predicates = constraint.predicates
        self._tokens = self.vocabulary.tokens
        self._eos = frozenset(self.vocabulary.eos_ids)
        self._states = TextStateCache(_START, TextState(b"", relaxed_automaton.start, DEAD, -1), memory_limit)
        self._masks: LRUCache[tuple[int, int], Bitmask] = LRUCache(_MASK_CACHE_SIZE)
        self._grammar_allows_only_eos = lru_cache(_ONLY_EOS_CACHE_SIZE)(self._compute_only_eos)
        for predicate in self._predicates:
            if not predicate.check("prefix", [b""])[0]:
                raise UnsatisfiableConstraint(
                    "no completion satisfies the constraint",
                    Problem(predicate.name, "rejects the empty prefix, and so every text"),
                    action="return True for prefixes of valid texts, or pass the function as complete_ok",
                )

    @property
    def relaxed_automaton(self) -> Automaton:
        """The grammar's automaton: it allows every token that is allowed here."""
        return self._relaxed

    def relaxed_state(self, state: int) -> int:
        """The state of `relaxed_automaton` after the same tokens."""
        return self._states[state].relaxed_state if state > _ENDED else DEAD

    def text(self, state: int) -> bytes:
        """The bytes of the prefix."""
        return self._states[state].text if state > _ENDED else b""

    def next(self, state: int, token: int) -> int:
        """See `Automaton.next`; calls the predicates for at most one new text."""
        return self.next_within(state, token, NO_LIMIT)

    def next_within(self, state: int, token: int, budget: int) -> int:
        """See `Automaton.next_within`; completions are counted by the grammar."""
        if state in (DEAD, _ENDED) or token in self._eos:
            complete = state == _ENDED or (state != DEAD and self.accepts(state))
            return _ENDED if complete and token in self._eos else DEAD
        before = self._states[state]
        after = self._relaxed.next(before.relaxed_state, token)
        if after == DEAD or self._relaxed.shortest_completion(after) >= budget:
            return DEAD
        cached = self._states.child(state, token)
        text = before.text + self._tokens[token]
        if cached is None and not self._check("prefix", [text])[0]:
            return DEAD
        must_end = budget == 1 or self._grammar_allows_only_eos(after)
        if must_end and not self._check("complete", [text])[0]:
            return DEAD
        return self._states.intern(TextState(text, after, state, token)) if cached is None else cached

    def accepts(self, state: int) -> bool:
        """See `Automaton.accepts`."""
        if state in (DEAD, _ENDED):
            return state == _ENDED
        here = self._states[state]
        return self._relaxed.accepts(here.relaxed_state) and self._check("complete", [here.text])[0]

    def fill_mask_within(self, state: int, mask: Bitmask, budget: int) -> None:
        """See `Automaton.fill_mask_within`; calls the predicates for every token that the grammar allows."""
        target = np.asarray(mask)
        cached = self._masks.get((state, budget))
        if cached is None:
            cached = self._compute_mask(state, budget)
            self._masks.put((state, budget), cached)
        target[:] = cached

    def fill_relaxed_mask(self, state: int, mask: Bitmask, budget: int) -> None:
        """Writes a superset of the mask that `fill_mask_within` writes, without calling a predicate."""
        if state == _ENDED:
            np.asarray(mask)[:] = pack_ids(self._eos, self.vocabulary.size)
        else:
            self._relaxed.fill_mask_within(self.relaxed_state(state), mask, budget)

    def limit_may_exclude(self, state: int, budget: int) -> bool:
        """See `Automaton.limit_may_exclude`. Asks the grammar alone: the predicates would check every token again."""
        if budget <= 1:  # then the text with the token has to be complete
            return True
        limited, unlimited = self.new_mask(), self.new_mask()
        self.fill_relaxed_mask(state, limited, budget)
        self.fill_relaxed_mask(state, unlimited, NO_LIMIT)
        return not np.array_equal(limited, unlimited)

    def only_eos(self, state: int, budget: int) -> bool:
        """Whether the text is complete and the grammar allows only an end of sequence within the budget."""
        if state == _ENDED or not self.accepts(state):
            return state == _ENDED
        if budget < 1 or self._grammar_allows_only_eos(self.relaxed_state(state)):
            return True
        mask = self.new_mask()
        self.fill_relaxed_mask(state, mask, budget)
        return self._eos.issuperset(unpack_ids(mask).tolist())

    def has_mask(self, state: int) -> bool:
        """Whether the mask of a state without a token limit is in the cache."""
        return (state, NO_LIMIT) in self._masks

    def forced(self, state: int) -> bytes:
        """The common prefix of the completions that the grammar allows."""
        return b"" if state in (DEAD, _ENDED) else self._relaxed.forced(self.relaxed_state(state))

    def shortest_completion(self, state: int) -> int:
        """The number of tokens, end of sequence not counted, that the grammar needs: a lower bound."""
        return 0 if state == _ENDED else self._relaxed.shortest_completion(self.relaxed_state(state))

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the grammar's automaton, and of the states here."""
        return {
            **self._relaxed.memory,
            "predicate_states": len(self._states),
            "predicate_bytes": self._states.bytes,
        }

    @property
    def outgrown(self) -> bool:
        """Whether the grammar's automaton is."""
        return self._relaxed.outgrown

    def _compute_mask(self, state: int, budget: int) -> Bitmask:
        mask = self.new_mask()
        if state == DEAD:
            return mask
        self.fill_relaxed_mask(state, mask, budget)
        if state == _ENDED:
            return mask
        candidates: list[int] = unpack_ids(mask).tolist()
        tokens = [token for token in candidates if token not in self._eos]
        relaxed, text = self.relaxed_state(state), self.text(state)
        allowed = [token for token in candidates if token in self._eos] if self.accepts(state) else []
        texts = [text + self._tokens[token] for token in tokens]
        accepted = self._check("prefix", texts)
        must_end = [
            i for i, token in enumerate(tokens)
            if accepted[i]
            and (budget == 1 or self._grammar_allows_only_eos(self._relaxed.next(relaxed, token)))
        ]  # fmt: skip
        complete = self._check("complete", [texts[i] for i in must_end])
        rejected = {i for i, verdict in zip(must_end, complete, strict=True) if not verdict}
        allowed += [token for i, token in enumerate(tokens) if accepted[i] and i not in rejected]
        return pack_ids(allowed, self.vocabulary.size)

    def _check(self, kind: CheckKind, texts: list[bytes]) -> list[bool]:
        """Whether all predicates accept each text; a predicate sees only texts that the predicates before it accept."""
        accepted = [True] * len(texts)
        for predicate in self._predicates:
            left = [i for i, verdict in enumerate(accepted) if verdict]
            for i, verdict in zip(left, predicate.check(kind, [texts[i] for i in left]), strict=True):
                accepted[i] = verdict
        return accepted

    def _compute_only_eos(self, relaxed_state: int) -> bool:
        mask = self._relaxed.new_mask()
        self._relaxed.fill_mask(relaxed_state, mask)
        return self._eos.issuperset(unpack_ids(mask).tolist())

    def __repr__(self) -> str:
        names = " and ".join(predicate.name for predicate in self._predicates)
        return f"PredicateAutomaton({self._relaxed!r}, checked by {names})"
