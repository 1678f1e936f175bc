"""The dry run of a new automaton before it serves: a few texts are followed, and their work is counted.

Work is counted by the native core (`constrained/_core/work.hpp`), not timed, so the same constraint is refused on every
machine. Must not know: grammars, models, samplers.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeAlias

from constrained import _core
from constrained.automaton.bitmask import pack_ids, unpack_ids
from constrained.automaton.protocol import NO_LIMIT
from constrained.errors import ConstraintTooLarge, Problem

if TYPE_CHECKING:
    import numpy as np

    from constrained.automaton import LexerAutomaton, TokenAutomaton, UniqueAutomaton

    CompiledAutomaton: TypeAlias = TokenAutomaton | UniqueAutomaton | LexerAutomaton

WORK_LIMIT = 750_000
"""Steps that one mask, or one count of tokens, may take in the trial: some 50 ms."""
START_LIMIT = 4 * WORK_LIMIT
"""The same at the start, which is remembered: it is taken while the constraint is compiled, and not by a text."""

_ENOUGH = START_LIMIT
"""Steps after which there is no further text."""
_ALL = 4 * START_LIMIT
"""Steps that the calls of one text may take together: a text that takes more was not followed far enough to know what comes."""
_CHEAP = 100_000
"""Where no call of the first text takes more steps than this, there is no second one."""
_CHEAP_WALK = 4
"""Nor where none takes more steps a token of the vocabulary: a walk over all tokens, which a mask near the token limit is in
free text, takes about two a token."""
_TOKENS = 8
"""Tokens of each text."""
_NEAR_LIMIT = 4
"""After so many tokens each a mask near the token limit is tried too: in free text it goes over all tokens, whatever the constraint."""
_SPARE = (0, 10)
"""Tokens that the limit leaves beyond the fewest: with more of them fewer tokens are ruled out by their bytes, and more are counted."""
_TEXTS = 3
"""Random texts. The shortest one is followed by counting its tokens."""
_AMBIGUOUS = 3
"""Open rules that may be read in several ways somewhere in these texts, from which on a longer text is followed: what its masks
take may grow with its length."""
_VERY_AMBIGUOUS = 16
"""So many of them, from which on a second such text is followed, which opens as many as it can."""
_LONG = 160
"""Bytes of the longer text, at least; as many tokens at most."""
_LONG_LIMIT = 500_000
"""Steps that a mask, or a count, of the longer text may take: where it takes so many here, it takes more in longer ones."""
_LONG_LEAST, _LONG_LEAST_ALL = _LONG // 4, START_LIMIT
"""Bytes that have to be read in so many steps: where they are not, each byte takes so many that the next hundreds take far more."""
_LONG_NEAR_LIMIT = 16
_DRAWN = 32
"""Tokens of which the longer text takes short ones."""
_TRIED = 4
"""Tokens of which a text takes the one behind which most rules may be read in several ways."""
_SHOWN = 40


def try_out(
    automaton: CompiledAutomaton,
    limit: int = WORK_LIMIT,
    *,
    start_limit: int = START_LIMIT,
    written: bool = False,
) -> None:
    """Follows the masks of a few texts, without a token limit and near it.

    Args:
        automaton: new: nobody else calls it yet.
        limit: of the steps of each call after the start.
        start_limit: of the steps of each call at the start.
        written: a grammar that somebody wrote, which may be ambiguous.

    Raises:
        ConstraintTooLarge: a call took more steps, or the calls of a text together did; names the text before it.
    """
    trial = _Trial(automaton, limit, start_limit)
    cheap = max(_CHEAP, _CHEAP_WALK * automaton.vocabulary.size)
    try:
        trial.follow(random.Random(0), tried=1)
        for seed in range(1, _TEXTS):
            known = trial.most <= cheap and trial.longest == _TOKENS and not trial.forks
            if trial.work < _ENOUGH and not known:
                trial.follow(random.Random(seed), tried=_TRIED)
        if trial.forks >= _AMBIGUOUS or (written and trial.most > cheap):
            trial.limit = trial.start_limit = min(limit, _LONG_LIMIT)
            trial.follow_long(random.Random(_TEXTS), tried=1)
            if trial.forks >= _VERY_AMBIGUOUS:
                trial.follow_long(random.Random(_TEXTS), tried=_TRIED)
    except _core.TooLarge:
        raise trial.refusal(f"the next one takes more than {trial.limit_here:,} steps") from None
    finally:
        automaton.limit_work(None)


class _Trial:
    """The texts of one trial.

    Attributes:
        limit, start_limit: of the steps of a call, after the start and there.
        text: tokens of the current one.
        work: steps of all calls so far.
        most: steps of the costliest one.
        longest: tokens of the longest text.
        forks: open rules that may be read in several ways, at most.
    """

    def __init__(self, automaton: CompiledAutomaton, limit: int, start_limit: int) -> None:
        self.automaton = automaton
        self.limit, self.start_limit = limit, start_limit
        self.text: list[int] = []
        self.work = self.most = self.longest = self.forks = 0
        self._before = 0  # steps before the current text
        self._mask = automaton.new_mask()
        self._texts = ~pack_ids(automaton.vocabulary.eos_ids, automaton.vocabulary.size)

    @property
    def limit_here(self) -> int:
        """The limit of steps after the text so far."""
        return self.limit if self.text else self.start_limit

    def follow(self, draw: random.Random, tried: int) -> None:
        """Follows one text; `tried`: tokens of which each is chosen."""
        state = self._begin()
        while len(self.text) < _TOKENS:
            allowed = self._masks(state, near_limit=len(self.text) % _NEAR_LIMIT == 0, count=True)
            if not allowed.size:
                return
            state = self._read(state, [int(draw.choice(allowed)) for _ in range(tried)])
            self.longest = max(self.longest, len(self.text))

    def follow_long(self, draw: random.Random, tried: int) -> None:
        """Follows a text of many short tokens; `tried`: of which each is chosen."""
        tokens = self.automaton.vocabulary.tokens
        state, size = self._begin(), 0
        while size < _LONG and len(self.text) < _LONG:
            near_limit = len(self.text) % _LONG_NEAR_LIMIT == 0
            allowed = self._masks(state, near_limit=near_limit, count=near_limit)
            if not allowed.size:
                return
            drawn = (int(draw.choice(allowed)) for _ in range(_DRAWN))
            state = self._read(state, sorted(drawn, key=lambda token: len(tokens[token]))[:tried])
            size += len(tokens[self.text[-1]])
            if size < _LONG_LEAST and self.work - self._before > _LONG_LEAST_ALL:
                raise self._together(_LONG_LEAST_ALL)

    def refusal(self, reason: str) -> ConstraintTooLarge:
        """The error that names the text so far."""
        written = b"".join(self.automaton.vocabulary.tokens[token] for token in self.text)[-_SHOWN:]
        place = f"after the text {written.decode(errors='replace')!r}" if self.text else "at the start"
        return ConstraintTooLarge(
            "the masks of the constraint take too long",
            Problem(place, reason),
            action="simplify it: fewer conditions that overlap, shorter counts, fewer ways to read one text",
        )

    def _begin(self) -> int:
        self.text = []
        self._before = self.work
        return self.automaton.start

    def _masks(self, state: int, *, near_limit: bool, count: bool) -> np.ndarray:
        """The tokens that a state allows, without those that end the text."""
        automaton, mask = self.automaton, self._mask
        automaton.limit_work(self.limit_here)
        automaton.fill_mask(state, mask)
        self._count()
        allowed = unpack_ids(mask & self._texts)
        if count:
            needed = automaton.shortest_completion(state)
            self._count()
            for more in _SPARE if near_limit else ():
                automaton.fill_mask_within(state, mask, min(needed + more, NO_LIMIT))
                self._count()
        return allowed

    def _read(self, state: int, drawn: list[int]) -> int:
        """The state after the one of these tokens behind which most rules are open in several ways."""
        ways = []
        for token in drawn:
            after = self.automaton.next(state, token)
            self._count()
            ways.append((self.automaton.forks(after), token, after))
        forks, token, after = max(ways, key=lambda way: way[0])
        self.text.append(token)
        self.forks = max(self.forks, forks)
        return after

    def _count(self) -> None:
        work = self.automaton.last_work
        self.work += work
        self.most = max(self.most, work)
        if self.work - self._before > _ALL:
            raise self._together(_ALL)

    def _together(self, limit: int) -> ConstraintTooLarge:
        return self.refusal(f"those before it take more than {limit:,} steps together")
