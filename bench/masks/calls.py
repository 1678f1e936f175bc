"""Calls of an engine between two readings of the clock, written out as a user would write them.

``fill(state, *target)`` builds a list and a tuple first: on a slow machine that takes as long as a known mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns as clock
from typing import Any


def timed_fill(fill: Callable[..., Any], target: tuple[Any, ...]) -> Callable[[Any], int]:
    """``fill(state, *target)`` as a call that returns the nanoseconds it took.

    Raises:
        ValueError: there are not one to three arguments in `target`.
    """

    def one(state: Any) -> int:
        begun = clock()
        fill(state, a)
        return clock() - begun

    def two(state: Any) -> int:
        begun = clock()
        fill(state, a, b)
        return clock() - begun

    def three(state: Any) -> int:
        begun = clock()
        fill(state, a, b, c)
        return clock() - begun

    a, b, c = (*target, None, None, None)[:3]
    return _by_length(target, (one, two, three))


def timed_fills(fill: Callable[..., Any], targets: Sequence[tuple[Any, ...]]) -> Callable[[list[Any]], int]:
    """One call after the other for states and their targets; the nanoseconds of all of them together.

    Raises:
        ValueError: there are no targets, or not one to three arguments in each.
    """

    def one(states: list[Any]) -> int:
        begun = clock()
        for state, (a,) in zip(states, targets, strict=True):
            fill(state, a)
        return clock() - begun

    def two(states: list[Any]) -> int:
        begun = clock()
        for state, (a, b) in zip(states, targets, strict=True):
            fill(state, a, b)
        return clock() - begun

    def three(states: list[Any]) -> int:
        begun = clock()
        for state, (a, b, c) in zip(states, targets, strict=True):
            fill(state, a, b, c)
        return clock() - begun

    return _by_length(targets[0] if targets else (), (one, two, three))


def _by_length(target: tuple[Any, ...], calls: tuple[Callable[[Any], int], ...]) -> Callable[[Any], int]:
    if not 1 <= len(target) <= len(calls):
        raise ValueError(f"no call is written out for {len(target)} arguments")
    return calls[len(target) - 1]
