"""The trial of a new automaton: it is followed for some tokens before its first one is promised.

Work is counted by the native core (`constrained/_core/work.hpp`), not timed, so the same constraint is refused on every
machine. Must not know: grammars, models, samplers.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeAlias

from constrained import _core
from constrained.automaton.bitmask import pack_ids, unpack_ids
from constrained.errors import ConstraintTooLarge, Problem

if TYPE_CHECKING:
    from constrained.automaton import LexerAutomaton, SpelledAutomaton, TokenAutomaton, UniqueAutomaton

    CompiledAutomaton: TypeAlias = TokenAutomaton | UniqueAutomaton | LexerAutomaton | SpelledAutomaton

WORK_LIMIT = 3_000_000
"""Steps that one mask, or one count of tokens, may take in the trial: some 0.1 s."""

_ALL = WORK_LIMIT
"""Steps after which the trial ends."""
_CHEAP = 100_000
"""Where no call of the first text takes more steps than this, there is no second one."""
_CHEAP_WALK = 4
"""Nor where none takes more steps a token of the vocabulary: a walk over all tokens, which a mask near the token limit is in
free text, takes about two a token."""
_TOKENS = 8
"""Tokens of each text."""
_NEAR_LIMIT = 4
"""After so many tokens each a mask near the token limit is tried too: in free text it goes over all tokens, whatever the constraint."""
_TEXTS = 3
"""Random texts. The shortest one is followed by counting its tokens."""
_AMBIGUOUS = 3
"""Open rules that may be read in several ways at the end of the first text, from which on a longer text is followed: what its masks
take may grow with its length."""
_LONG = 160
"""Bytes of the longer text, at least; as many tokens at most."""
_LONG_LIMIT = 500_000
"""Steps that a mask, or a count, of the longer text may take: where it takes so many here, it takes more in longer ones."""
_LONG_LEAST = _LONG // 4
"""Bytes of the longer text that have to be read within `_ALL` steps: where they are not, each byte takes so many that the next hundreds
take far more."""
_LONG_NEAR_LIMIT = 16
_DRAWN = 32
"""Tokens of which the longer text takes the shortest."""
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
    cheap = max(_CHEAP, _CHEAP_WALK * automaton.vocabulary.size)
    automaton.limit_work(limit)
    try:
        for seed in range(_TEXTS):
            if trial.work < _ALL and (seed == 0 or trial.most > cheap):
                trial.follow(random.Random(seed))
        if trial.ambiguous:
            limit = min(limit, _LONG_LIMIT)
            automaton.limit_work(limit)
            trial.follow_long(random.Random(_TEXTS))
    except _core.TooLarge:
        raise trial.refusal(f"the next one takes more than {limit:,} steps") from None
    finally:
        automaton.limit_work(None)


class _Trial:
    """The texts of one trial.

    Attributes:
        text: tokens of the current one.
        work: steps of all calls so far.
        most: steps of the costliest one.
        ambiguous: several ways to read a text went on at many levels of open rules.
    """

    def __init__(self, automaton: CompiledAutomaton) -> None:
        self.automaton = automaton
        self.text: list[int] = []
        self.work = self.most = 0
        self.ambiguous = False
        self._mask = automaton.new_mask()
        self._texts = ~pack_ids(automaton.vocabulary.eos_ids, automaton.vocabulary.size)

    def follow(self, draw: random.Random) -> None:
        """Follows one text."""
        automaton, mask = self.automaton, self._mask
        state = automaton.start
        self.text = []
        while len(self.text) < _TOKENS and self.work < _ALL:
            automaton.fill_mask(state, mask)
            self._count()
            allowed = unpack_ids(mask & self._texts)
            needed = automaton.shortest_completion(state)
            self._count()
            if len(self.text) % _NEAR_LIMIT == 0:
                automaton.fill_mask_within(state, mask, needed)
                self._count()
            if not allowed.size:
                return
            self.text.append(int(draw.choice(allowed)))
            state = automaton.next(state, self.text[-1])
        self.ambiguous |= automaton.forks(state) >= _AMBIGUOUS

    def follow_long(self, draw: random.Random) -> None:
        """Follows a text of many short tokens."""
        automaton, mask, tokens = self.automaton, self._mask, self.automaton.vocabulary.tokens
        state, size, work = automaton.start, 0, self.work
        self.text = []
        while size < _LONG and len(self.text) < _LONG and self.work - work < _ALL:
            automaton.fill_mask(state, mask)
            self._count()
            allowed = unpack_ids(mask & self._texts)
            if len(self.text) % _LONG_NEAR_LIMIT == 0:
                automaton.fill_mask_within(state, mask, automaton.shortest_completion(state))
                self._count()
            if not allowed.size:
                return
            drawn = (int(draw.choice(allowed)) for _ in range(_DRAWN))
            self.text.append(min(drawn, key=lambda token: len(tokens[token])))
            size += len(tokens[self.text[-1]])
            state = automaton.next(state, self.text[-1])
        if size < _LONG_LEAST and self.work - work >= _ALL:
            raise self.refusal(f"those before it take more than {_ALL:,} steps together")

    def refusal(self, reason: str) -> ConstraintTooLarge:
        """The error that names the text so far."""
        written = b"".join(self.automaton.vocabulary.tokens[token] for token in self.text)[-_SHOWN:]
        place = f"after the text {written.decode(errors='replace')!r}" if self.text else "at the start"
        return ConstraintTooLarge(
            "the masks of the constraint take too long",
            Problem(place, reason),
            action="simplify it: fewer conditions that overlap, shorter counts, fewer ways to read one text",
        )

    def _count(self) -> None:
        self.work += self.automaton.last_work
        self.most = max(self.most, self.automaton.last_work)
