"""Reading many tokens at once with an automaton in Python: each byte in each state is read once, not once for each token.

Must not know: models, samplers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from constrained.vocabulary import Vocabulary

State = TypeVar("State", bound=Hashable)

_KNOWN = 1 << 15
"""Steps that are kept; where there are more, the states are as many as the tokens, and keeping them saves little."""

_DENSE = 1 << 22
"""Places of a table by state and byte above which the pairs are sorted instead."""


def judge_tokens(
    vocabulary: Vocabulary,
    tokens: NDArray[np.intp],
    start: State,
    step: Callable[[State, int, bool], State | None],
    judge: Callable[[State], int],
) -> NDArray[np.int64]:
    """What is thought of the state after each token.

    Args:
        vocabulary: of the tokens.
        tokens: their numbers.
        start: state before them.
        step: gives the state after a byte, or None; the last argument says whether it is the first byte of the token.
        judge: gives a number that is not negative for the state after a token, or -1.

    Returns:
        For each token its number; -1 for one that cannot be read, or has no bytes.
    """
    blob = np.frombuffer(vocabulary.tokens.blob, dtype=np.uint8)
    offsets = vocabulary.tokens.offsets
    verdicts = np.full(len(tokens), -1, dtype=np.int64)
    at, ends = offsets[tokens], offsets[tokens + 1]
    open_ones = np.flatnonzero(at < ends)  # places in `tokens` of those that are not read to their end
    at, ends = at[open_ones], ends[open_ones]
    states, numbers = [start], np.zeros(len(open_ones), dtype=np.int64)
    known: dict[tuple[State, int], State | None] = {}
    judged: dict[State, int] = {}
    first = True
    while len(open_ones):
        pairs, which = _distinct(numbers << 8 | blob[at], len(states) << 8)
        found: dict[State, int] = {}
        after = np.full(len(pairs), -1, dtype=np.int64)
        for i, pair in enumerate(pairs.tolist()):
            key = (states[pair >> 8], pair & 255)
            if first or key not in known:
                if len(known) >= _KNOWN:
                    known.clear()
                reached = step(*key, first)
                if not first:
                    known[key] = reached
            else:
                reached = known[key]
            if reached is not None:
                after[i] = found.setdefault(reached, len(found))
        states, numbers, at = list(found), after[which], at + 1
        read = (numbers >= 0) & (at == ends)
        if read.any():
            verdict = np.full(len(states), -1, dtype=np.int64)
            for number in np.unique(numbers[read]).tolist():
                state = states[number]
                if state not in judged:
                    judged[state] = judge(state)
                verdict[number] = judged[state]
            verdicts[open_ones[read]] = verdict[numbers[read]]
        left = (numbers >= 0) & (at < ends)
        open_ones, numbers, at, ends = open_ones[left], numbers[left], at[left], ends[left]
        first = False
    return verdicts


def _distinct(codes: NDArray[np.int64], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The different ones of some numbers below a size, and for each number its place among them."""
    if size > _DENSE:
        values, places = np.unique(codes, return_inverse=True)
        return values, places.reshape(-1)
    seen = np.zeros(size, dtype=bool)
    seen[codes] = True
    values = np.flatnonzero(seen)
    place = np.empty(size, dtype=np.intp)
    place[values] = np.arange(len(values))
    return values, place[codes]
