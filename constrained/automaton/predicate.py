"""The automaton of a grammar whose texts predicates have to accept as well.

One token at a time it is cheap: `next` asks the grammar's automaton, and the predicates only about what that allows.
A whole row is not: it asks them about every token that the grammar allows. So samplers look at `checks_are_costly`
and visit tokens one by one. Must not know: models, samplers, how predicates are called.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.text_states import TextState, TextStateCache
from constrained.errors import Problem, UnsatisfiableConstraint, UnsupportedConstraint

if TYPE_CHECKING:
    from constrained.constraint import PredicateConstraint
    from constrained.predicates import CheckKind
    from constrained.vocabulary import Vocabulary

DEAD = 0
_DONE = 1
_START = 2

_STATES_LIMIT = 64 << 20
_ENDS_KEPT = 1 << 16
_ROWS_KEPT = 256
_ENDLESS = 1 << 60

_Row = NDArray[np.int32]


class PredicateAutomaton:
    """A `TokenAutomaton` that asks predicates, too: everything that one does, with these differences.

    A token is allowed if the grammar's automaton allows it, and no predicate refuses the text with it: as a beginning,
    and also as a whole where nothing but the end could follow. A predicate that accepts a beginning which it lets
    nobody complete leads into a dead end: a live state in which nothing is allowed.
    `shortest_completion` counts by the grammar, so it is a lower bound. States that were not needed for longest are
    forgotten when all of them take more than `memory_limit` bytes; using one of these raises `ConstraintTooLarge`.

    Attributes:
        checks_are_costly: a row costs as many questions as the grammar allows tokens.
        relaxed_automaton: the grammar's automaton; it allows everything that is allowed here, and more.
        start, grammar, vocabulary, constraint: as there.

    Raises:
        UnsatisfiableConstraint: a predicate refuses the empty beginning.
        PredicateError: it does not answer.
    """

    checks_are_costly = True
    start = _START

    def __init__(
        self, relaxed_automaton: Any, constraint: PredicateConstraint, *, memory_limit: int = _STATES_LIMIT
    ) -> None:
        """Joins an automaton and the predicates of a constraint.

        Args:
            relaxed_automaton: the automaton of `constraint.inner`.
            constraint: what was asked for.
            memory_limit: bytes that its own states may take.
        """
        self.relaxed_automaton = relaxed_automaton
        self.constraint = constraint
        self.grammar = relaxed_automaton.grammar
        self.vocabulary: Vocabulary = relaxed_automaton.vocabulary
        self._predicates = constraint.predicates
        self._pieces = self.vocabulary.tokens
        self._eos = frozenset(self.vocabulary.eos_ids)
        self._states = TextStateCache(_START, TextState(b"", relaxed_automaton.start, DEAD, -1), memory_limit)
        self._rows: OrderedDict[tuple[int, int], _Row] = OrderedDict()
        self._lock = threading.Lock()
        self._only_ends = lru_cache(_ENDS_KEPT)(self._ends)
        for predicate in self._predicates:
            if not predicate.check("prefix", [b""])[0]:
                raise UnsatisfiableConstraint(
                    "no text satisfies the constraint",
                    Problem(predicate.name, "refuses the empty beginning, and so every text"),
                    action="let it say True to beginnings of good texts, or pass it as complete_ok",
                )

    @property
    def report(self) -> Any:
        """As `TokenAutomaton.report`; predicates have no keywords."""
        return self.constraint.report

    def relaxed_state(self, state: int) -> int:
        """The outline's state."""
        return self._states[state].relaxed_state if state > _DONE else DEAD

    def text(self, state: int) -> bytes:
        """The bytes so far."""
        return self._states[state].text if state > _DONE else b""

    def next(self, state: int, token: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed."""
        return self.next_within(state, token, _ENDLESS)

    def next_within(self, state: int, token: int, budget: int) -> int:
        """The state after `token`; 0 (DEAD) if it is not allowed, or leaves more to say than `budget` tokens.

        Args:
            state: any.
            token: id.
            budget: tokens that the text may still have, this one included.
        """
        if state in (DEAD, _DONE) or token in self._eos:
            ended = state == _DONE or (state != DEAD and self.accepts(state))
            return _DONE if ended and token in self._eos else DEAD
        here = self._states[state]
        after: int = self.relaxed_automaton.next(here.relaxed_state, token)
        if after == DEAD or self.relaxed_automaton.shortest_completion(after) > budget - 1:
            return DEAD
        known = self._states.child(state, token)
        text = here.text + self._pieces[token]
        if known is None and not self._good("prefix", [text])[0]:
            return DEAD
        if (budget == 1 or self._only_ends(after)) and not self._good("complete", [text])[0]:
            return DEAD
        return self._states.intern(TextState(text, after, state, token)) if known is None else known

    def walk(self, state: int, tokens: Sequence[int]) -> list[int]:
        """States after each token; stops at the first that is not allowed."""
        states = []
        for token in tokens:
            state = self.next(state, token)
            if state == DEAD:
                break
            states.append(state)
        return states

    def accepts(self, state: int) -> bool:
        """Whether the text so far is complete."""
        if state == _DONE:
            return True
        if state == DEAD:
            return False
        here = self._states[state]
        return self.relaxed_automaton.accepts(here.relaxed_state) and self._good("complete", [here.text])[0]

    def fill_mask(self, state: int, mask: Any) -> None:
        """Writes the allowed tokens (dear, see above): bit t % 32 of word t // 32; EOS bits iff complete."""
        self.fill_mask_within(state, mask, _ENDLESS)

    def fill_masks(self, states: Sequence[int], rows: Any) -> None:
        """One row for each state."""
        for state, row in zip(states, rows, strict=True):
            self.fill_mask(state, row)

    def fill_mask_within(self, state: int, mask: Any, budget: int) -> None:
        """As `fill_mask`, without the tokens that leave more to say than `budget - 1` tokens, by the grammar."""
        into = np.asarray(mask)
        key = (state, budget)
        known = self._rows.get(key)
        if known is None:
            known = self._row(state, budget, np.zeros_like(into))
            with self._lock:
                self._rows[key] = known
                while len(self._rows) > _ROWS_KEPT:
                    self._rows.popitem(last=False)
        into[:] = known

    def fill_relaxed_mask(self, state: int, mask: Any, budget: int) -> None:
        """As `fill_mask_within`, without asking a predicate: no allowed token is missing, and others are there."""
        if state == _DONE:
            np.asarray(mask)[:] = _packed(self.vocabulary.eos_ids, np.asarray(mask))
        else:
            self.relaxed_automaton.fill_mask_within(self.relaxed_state(state), mask, min(budget, _FAR))

    def only_eos(self, state: int, budget: int) -> bool:
        """Whether nothing but the end can follow within a budget, by the grammar, and the text is complete."""
        if state == _DONE or not self.accepts(state):
            return state == _DONE
        if budget < 1 or self._only_ends(self.relaxed_state(state)):
            return True
        row = self.empty_row()
        self.fill_relaxed_mask(state, row, budget)
        return not (row & ~_packed(self.vocabulary.eos_ids, row)).any()

    def has_mask(self, state: int) -> bool:
        """Whether the row of a state, without a budget, is known already."""
        return (state, _ENDLESS) in self._rows

    def mask_id(self, state: int) -> int:
        """Rows that predicates made are not kept.

        Raises:
            UnsupportedConstraint: always.
        """
        raise UnsupportedConstraint(
            "rows of a predicate have no ids", action="fill masks, or check token by token with next"
        )

    def mask_ids(self, states: Sequence[int]) -> list[int]:
        """As `mask_id`."""
        return [self.mask_id(state) for state in states]

    def forced(self, state: int) -> bytes:
        """What every completion starts with, as far as the grammar tells."""
        return (
            b"" if state in (DEAD, _DONE) else bytes(self.relaxed_automaton.forced(self.relaxed_state(state)))
        )

    def shortest_completion(self, state: int) -> int:
        """Tokens, EOS not counted, in which the grammar can be completed: the text needs at least as many."""
        return (
            0
            if state == _DONE
            else int(self.relaxed_automaton.shortest_completion(self.relaxed_state(state)))
        )

    def empty_row(self, count: int | None = None) -> _Row:
        """A zeroed row (or `count` rows) of the right size, int32."""
        row: _Row = self.relaxed_automaton.new_mask(count)
        return row

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of the tables: the outline's, and this automaton's own states."""
        found = dict(self.relaxed_automaton.memory)
        return {**found, "guarded_states": len(self._states), "guarded_bytes": self._states.bytes}

    def _row(self, state: int, budget: int, mask: _Row) -> _Row:
        if state == DEAD:
            return mask
        self.fill_relaxed_mask(state, mask, budget)
        if state == _DONE:
            return mask
        ids = [int(i) for i in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))]
        tokens = [token for token in ids if token not in self._eos]
        outlined, text = self.relaxed_state(state), self.text(state)
        allowed = [token for token in ids if token in self._eos] if self.accepts(state) else []
        texts = [text + self._pieces[token] for token in tokens]
        good = self._good("prefix", texts)
        ending = [
            i for i, token in enumerate(tokens)
            if good[i] and (budget == 1 or self._only_ends(self.relaxed_automaton.next(outlined, token)))
        ]  # fmt: skip
        whole = self._good("complete", [texts[i] for i in ending])
        refused = {i for i, answer in zip(ending, whole, strict=True) if not answer}
        allowed += [token for i, token in enumerate(tokens) if good[i] and i not in refused]
        return _packed(allowed, mask)

    def _good(self, question: CheckKind, texts: list[bytes]) -> list[bool]:
        """Whether all predicates accept, for each text; the later ones see only what the earlier ones left."""
        good = [True] * len(texts)
        for predicate in self._predicates:
            left = [i for i, answer in enumerate(good) if answer]
            for i, answer in zip(left, predicate.check(question, [texts[i] for i in left]), strict=True):
                good[i] = answer
        return good

    def _ends(self, outlined: int) -> bool:
        """Whether nothing but the end can follow, by the grammar."""
        row = self.relaxed_automaton.new_mask()
        self.relaxed_automaton.fill_mask(outlined, row)
        row &= ~_packed(self.vocabulary.eos_ids, row)
        return not row.any()

    def __repr__(self) -> str:
        names = " and ".join(predicate.name for predicate in self._predicates)
        return f"GuardedAutomaton({self.relaxed_automaton!r}, checked by {names})"


_FAR = 1 << 30
"""A budget that is none, for the native automata."""


def _packed(ids: Sequence[int], like: _Row) -> _Row:
    """The row of some ids."""
    bits = np.zeros(like.size * 32, dtype=np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
