"""The trial of a new automaton: it is followed for some tokens before its first one is promised.

Work is counted by the native core (`constrained/_core/work.hpp`), not timed, so the same constraint is refused on every
machine. Must not know: grammars, models, samplers.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeAlias

from constrained import _core
from constrained.automaton.bitmask import unpack_ids
from constrained.errors import ConstraintTooLarge, Problem

if TYPE_CHECKING:
    from constrained.automaton import LexerAutomaton, TokenAutomaton, UniqueAutomaton

    CompiledAutomaton: TypeAlias = TokenAutomaton | UniqueAutomaton | LexerAutomaton

WORK_LIMIT = 3_000_000
"""Steps that one mask, or one count of tokens, may take in the trial: some 0.1 s."""

_ALL = 2 * WORK_LIMIT
"""Steps after which the trial ends."""
_TOKENS = 12
"""Tokens of each text."""
_SEEDS = (None, 1, 2)
"""Texts: the shortest one, and random ones."""
_SHOWN = 40


def try_out(automaton: CompiledAutomaton, limit: int = WORK_LIMIT) -> None:
    """Follows the masks of a few texts, without a token limit and near it.

    Args:
        automaton: new: nobody else calls it yet.
        limit: of the steps of each call.

    Raises:
        ConstraintTooLarge: a call took more steps; names the text before it.
    """
    trial = _Trial(automaton)
    automaton.limit_work(limit)
    try:
        for seed in _SEEDS:
            if trial.work < _ALL:
                trial.follow(random.Random(seed) if seed is not None else None)
    except _core.TooLarge:
        written = b"".join(automaton.vocabulary.tokens[token] for token in trial.text)[-_SHOWN:]
        place = f"after the text {written.decode(errors='replace')!r}" if trial.text else "at the start"
        raise ConstraintTooLarge(
            "the masks of the constraint take too long",
            Problem(place, f"the next one takes more than {limit:,} steps"),
            action="simplify it: fewer conditions that overlap, shorter counts, fewer ways to read one text",
        ) from None
    finally:
        automaton.limit_work(None)


class _Trial:
    """The texts of one trial.

    Attributes:
        text: tokens of the current one.
        work: steps of all calls so far.
    """

    def __init__(self, automaton: CompiledAutomaton) -> None:
        self.automaton = automaton
        self.text: list[int] = []
        self.work = 0
        self._mask = automaton.new_mask()
        self._eos = set(automaton.vocabulary.eos_ids)

    def follow(self, draw: random.Random | None) -> None:
        """Follows one text; `draw` None: one with the fewest tokens."""
        automaton, mask = self.automaton, self._mask
        state = automaton.start
        self.text = []
        while len(self.text) < _TOKENS and self.work < _ALL:
            automaton.fill_mask(state, mask)
            self.work += automaton.last_work
            allowed = self._tokens()
            needed = automaton.shortest_completion(state)
            self.work += automaton.last_work
            automaton.fill_mask_within(state, mask, needed)
            self.work += automaton.last_work
            if draw is None:
                allowed = self._tokens()
            if not allowed:
                return
            self.text.append(allowed[0] if draw is None else draw.choice(allowed))
            state = automaton.next(state, self.text[-1])

    def _tokens(self) -> list[int]:
        return [token for token in unpack_ids(self._mask).tolist() if token not in self._eos]
