"""The automaton of a grammar with texts of a limited number of tokens.

A prefix has *readings*: in each, the rules stand somewhere, and perhaps a counted text is open. The rules are an automaton in
which a letter stands for each counted text (`constrained.grammars.counted`), and each counted text is an automaton of its own. A token is
read byte by byte, because a counted text may begin and end inside of it; masks come from the native automata, but for tokens
that cross an end of a counted text, which are read together (`tokens_together`). Must not know: models, samplers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from constrained.automaton.bitmask import Bitmask, pack_ids, unpack_ids
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.automaton.tokens_together import judge_tokens
from constrained.lru_cache import LRUCache
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from constrained.constraint import Constraint
    from constrained.grammars.counted import CountedText

MAX_READINGS = 256
"""Readings that a state keeps. Repetitions of limited texts with no fixed end have ever more; those that end soonest are
kept then. Each can be completed, so no text comes to a dead end."""

_ENDED, _START = 1, 2
_OUTSIDE = -1
_CACHE_SIZE = 256
_STATES = 1 << 18
"""States of an automaton before a new text should have a new one."""


class _Place(NamedTuple):
    """Where a reading stands.

    Attributes:
        rules: state of the rules: here, or after the counted text that is open.
        text: number of the counted text that is open, or `_OUTSIDE`.
        inside: state of that text.
    """

    rules: int
    text: int
    inside: int


_Readings = dict[_Place, int]
"""The fewest tokens that the open text has so far, by place."""


_Reading = tuple[tuple[_Place, int], ...]
"""The same, in order."""


class _State(NamedTuple):
    relaxed: int
    readings: _Reading


class CountedAutomaton(Automaton):
    """The automaton of a grammar with texts of a limited number of tokens.

    After each token of such a text, the tokens that it has left complete it: it is never cut. Whether it is complete is asked of
    the text alone, not of a token that would reach beyond its end. `shortest_completion` is an upper bound: it adds up those of
    the open text and of the rules. The states remember how many tokens
    were counted, so each token of an open text makes a new one.
    """

    start = _START

    def __init__(
        self,
        rules: Automaton,
        texts: Sequence[tuple[CountedText, Automaton]],
        relaxed_automaton: Automaton,
        constraint: Constraint | None = None,
    ) -> None:
        """Joins automata.

        Args:
            rules: of the rules with letters, over `vocabulary_with_letters`; each letter stands as often as its text has tokens at
                least.
            texts: the counted texts, with the automaton of each.
            relaxed_automaton: of the same texts of any number of tokens.
            constraint: of the automaton.
        """
        self.vocabulary = relaxed_automaton.vocabulary
        self.constraint = constraint
        self._rules, self._relaxed = rules, relaxed_automaton
        self._texts = tuple(text for text, _ in texts)
        self._inner = tuple(automaton for _, automaton in texts)
        # A letter stands as often as the text has tokens at least, so that the rules count them.
        self._fewest = [max(1, one.shortest_completion(one.start)) for one in self._inner]
        self._letters = tuple(self.vocabulary.size + i for i in range(len(texts)))
        self._tokens = self.vocabulary.tokens
        self._bytes = {data: token for token, data in enumerate(self._tokens) if len(data) == 1}
        self._eos = frozenset(self.vocabulary.eos_ids)
        self._no_eos = ~pack_ids(self._eos, self.vocabulary.size)
        self._masks: LRUCache[tuple[int, int], Bitmask] = LRUCache(_CACHE_SIZE)
        self._crossing: LRUCache[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = LRUCache(_CACHE_SIZE)
        self._lock = threading.Lock()
        first = _State(
            relaxed_automaton.start, _ordered(self._closed({_Place(rules.start, _OUTSIDE, DEAD): 0}))
        )
        self._states = [_State(DEAD, ()), _State(DEAD, ()), first]
        self._numbers = {first: _START}

    @property
    def relaxed_automaton(self) -> Automaton:
        """The automaton without limits: it allows every token that is allowed here."""
        return self._relaxed

    def next(self, state: int, token: int) -> int:
        """See `Automaton.next`."""
        if token in self._eos:
            return _ENDED if self.accepts(state) else DEAD
        if state <= _ENDED or not 0 <= token < self.vocabulary.size:
            return DEAD
        here = self._states[state]
        readings = dict(here.readings)
        moved = self._moved(readings, self._tokens[token])
        after = self._after(readings, moved, token)
        if not after:
            return DEAD
        return self._number(_State(self._relaxed.next(here.relaxed, token), _ordered(self._kept(after))))

    def accepts(self, state: int) -> bool:
        """See `Automaton.accepts`."""
        if state <= _ENDED:
            return state == _ENDED
        return any(
            place.text == _OUTSIDE and self._rules.accepts(place.rules)
            for place, _ in self._states[state].readings
        )

    def shortest_completion(self, state: int) -> int:
        """See `Automaton.shortest_completion`."""
        if state <= _ENDED:
            return 0 if state == _ENDED else NO_LIMIT
        return self._shortest(place for place, _ in self._states[state].readings)

    def fill_mask_within(self, state: int, mask: Bitmask, budget: int) -> None:
        """See `Automaton.fill_mask_within`."""
        known = self._masks.get((state, budget))
        if known is None:
            known = self._mask(state, budget)
            self._masks.put((state, budget), known)
        np.asarray(mask)[:] = known

    def has_mask(self, state: int) -> bool:
        """Whether the mask of a state without a token limit is in the cache."""
        return (state, NO_LIMIT) in self._masks

    def forced(self, state: int) -> bytes:
        """The common prefix of the completions without limits."""
        return b"" if state <= _ENDED else self._relaxed.forced(self._states[state].relaxed)

    @property
    def memory(self) -> dict[str, int]:
        """Sizes of all automata, and of the states here."""
        total: dict[str, int] = {}
        for automaton in (self._relaxed, self._rules, *self._inner):
            for name, size in automaton.memory.items():
                total[name] = total.get(name, 0) + size
        return {**total, "counted_states": len(self._states)}

    @property
    def outgrown(self) -> bool:
        """Whether an automaton is, or there are many states."""
        parts = (self._relaxed, self._rules, *self._inner)
        return len(self._states) > _STATES or any(automaton.outgrown for automaton in parts)

    # ---------------------------------------------------------------- readings

    def _number(self, state: _State) -> int:
        with self._lock:
            number = self._numbers.get(state)
            if number is None:
                number = self._numbers[state] = len(self._states)
                self._states.append(state)
            return number

    def _closed(self, readings: _Readings) -> _Readings:
        """These readings, and those in which counted texts end or begin here."""
        found: _Readings = {}
        work = list(readings.items())
        while work:
            place, used = work.pop()
            if place in found and found[place] <= used:
                continue
            found[place] = used
            if place.text != _OUTSIDE:
                if self._inner[place.text].accepts(place.inside):
                    work.append((_Place(place.rules, _OUTSIDE, DEAD), 0))
                continue
            for text, after in self._beginning(place.rules, whole=False):
                work.append((_Place(after, text, self._inner[text].start), 0))
        return found

    def _beginning(self, rules: int, *, whole: bool) -> Iterable[tuple[int, int]]:
        """The counted texts that may begin in a state of the rules, with the state after each."""
        for text, letter in enumerate(self._letters):
            if self._texts[text].whole == whole:
                after = rules
                for _ in range(self._fewest[text]):
                    after = self._rules.next(after, letter)
                if after != DEAD:
                    yield text, after

    def _moved(self, readings: _Readings, data: bytes) -> _Readings:
        """The readings after the bytes of a token."""
        for at in range(len(data)):
            readings = self._stepped(readings, data[at : at + 1], first=at == 0)
            if not readings:
                break
        return readings if data else {}

    def _stepped(self, readings: _Readings, byte: bytes, *, first: bool) -> _Readings:
        """The readings after one byte; a token counts where its first byte is."""
        token = self._bytes.get(byte)
        moved: _Readings = {}
        if token is None:
            return moved
        for place, used in readings.items():
            if place.text == _OUTSIDE:
                after = _Place(self._rules.next(place.rules, token), _OUTSIDE, DEAD)
                alive = after.rules != DEAD
            else:
                used += first
                after = place._replace(inside=self._inner[place.text].next(place.inside, token))
                alive = after.inside != DEAD and used <= self._texts[place.text].most
            if alive and moved.get(after, used) >= used:
                moved[after] = used
        return self._closed(moved)

    def _after(self, readings: _Readings, moved: _Readings, token: int) -> _Readings:
        """The readings after a token, from those before it and those after its bytes: what can be ended in time, and whole texts."""
        after = self._in_time(moved)
        for place in readings:
            if place.text == _OUTSIDE:
                for text, rules in self._beginning(place.rules, whole=True):
                    inner = self._inner[text]
                    inside = inner.next(inner.start, token)
                    if inside != DEAD and inner.accepts(inside):
                        after |= self._closed({_Place(rules, _OUTSIDE, DEAD): 0})
        return after

    def _in_time(self, readings: _Readings) -> _Readings:
        """Those whose open text can be ended within its limit."""
        return {
            place: used
            for place, used in readings.items()
            if place.text == _OUTSIDE
            or self._inner[place.text].shortest_completion(place.inside)
            <= self._texts[place.text].most - used
        }

    def _kept(self, readings: _Readings) -> _Readings:
        if len(readings) <= MAX_READINGS:
            return readings
        soonest = sorted((self._shortest((place,)), used, place) for place, used in readings.items())
        return {place: used for _, used, place in soonest[:MAX_READINGS]}

    def _shortest(self, places: Iterable[_Place]) -> int:
        """The fewest tokens that complete one of some readings."""
        return min(
            (
                self._rules.shortest_completion(place.rules)
                + (0 if place.text == _OUTSIDE else self._inner[place.text].shortest_completion(place.inside))
                for place in places
            ),
            default=NO_LIMIT,
        )

    # ---------------------------------------------------------------- masks

    def _mask(self, state: int, budget: int) -> Bitmask:
        mask = self.new_mask()
        if state > _ENDED:
            self._fill_inside(dict(self._states[state].readings), mask, budget)
            mask &= self._no_eos
            tokens, shortest = self._crossing_tokens(state)
            mask |= pack_ids(tokens[shortest < budget], self.vocabulary.size)
        if self.accepts(state):
            mask |= ~self._no_eos
        return mask

    def _fill_inside(self, readings: _Readings, mask: Bitmask, budget: int) -> None:
        """Adds the tokens that stay in the rules, or in a counted text."""
        words = len(mask)
        of_rules, of_text = self._rules.new_mask(), self.new_mask()
        most: dict[
            tuple[int, int], int
        ] = {}  # tokens that a text may still take, of the readings in which it stands there
        for place, used in readings.items():
            if place.text == _OUTSIDE:
                self._rules.fill_mask_within(place.rules, of_rules, budget)
                mask |= of_rules[:words]
                inside = [
                    (text, self._inner[text].start, 1, rules)
                    for text, rules in self._beginning(place.rules, whole=True)
                ]
            else:
                inside = [(place.text, place.inside, self._texts[place.text].most - used, place.rules)]
            for text, within, left, rules in inside:
                left = min(left, budget - self._rules.shortest_completion(rules))
                most[text, within] = max(left, most.get((text, within), 0))
        for (text, within), left in most.items():
            if left > 0:
                self._inner[text].fill_mask_within(within, of_text, left)
                mask |= of_text & self._no_eos
        if spare := -self.vocabulary.size % 32:  # bits of letters
            mask[-1] &= np.uint32(0xFFFFFFFF >> spare).astype(np.int32)

    def _crossing_tokens(self, state: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The tokens that are allowed and do not stay inside, and the shortest completion after each."""
        known = self._crossing.get(state)
        if known is None:
            here = self._states[state]
            readings = dict(here.readings)
            inside, candidates = self.new_mask(), self.new_mask()
            self._fill_inside(readings, inside, NO_LIMIT)
            self._relaxed.fill_mask(here.relaxed, candidates)
            known = self._tried(readings, unpack_ids(candidates & ~inside & self._no_eos))
            self._crossing.put(state, known)
        return known

    def _tried(
        self, readings: _Readings, tokens: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Those of some tokens that are allowed, by reading each, and the shortest completion after it."""

        def step(before: _Reading, byte: int, first: bool) -> _Reading | None:
            return _ordered(self._stepped(dict(before), bytes((byte,)), first=first)) or None

        def judge(moved: _Reading) -> int:
            after = self._in_time(dict(moved))
            return self._shortest(after) if after else -1

        shortest = judge_tokens(self.vocabulary, tokens, _ordered(readings), step, judge)
        allowed = shortest >= 0
        return tokens[allowed], shortest[allowed]

    def __repr__(self) -> str:
        limits = ", ".join(str(text.most) for text in self._texts)
        return f"CountedAutomaton({self._relaxed!r}, with texts of at most {limits} tokens)"


def _ordered(readings: _Readings) -> _Reading:
    return tuple(sorted(readings.items()))


def vocabulary_with_letters(vocabulary: Vocabulary, letters: Iterable[bytes]) -> Vocabulary:
    """The vocabulary with a token for each of these bytes, after all others; other tokens with them are in no text.

    One for each vocabulary and choice of letters.
    """
    letters = tuple(letters)
    with _lock:
        known = _with_letters.setdefault(vocabulary, {})
        if letters not in known:
            marks = set(b"".join(letters))
            tokens = [b"" if marks.intersection(token) else token for token in vocabulary.tokens]
            known[letters] = Vocabulary.from_bytes(
                [*tokens, *letters],
                vocabulary.eos_ids,
                memory_limit=vocabulary.memory_limit,
                shards=vocabulary.shards,
            )
        return known[letters]


_with_letters: WeakKeyDictionary[Vocabulary, dict[tuple[bytes, ...], Vocabulary]] = WeakKeyDictionary()
_lock = threading.Lock()
