"""What is timed: the calls of an engine, each between two readings of the clock and nothing else between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from constrained.automaton.bitmask import allows
from constrained.bench.masks.engines.base import CompiledSchema, EngineFault, MaskTable
from constrained.bench.masks.rows import BatchTimes, InstanceReplay, ReplayPass
from constrained.bench.masks.workload import Instance

_ROUNDS = 7
"""Times a batch is measured."""

MaskObserver = Callable[[int, int, MaskTable], None]
"""Sees every mask of a pass: instance, position, row. For comparisons; slows the replay, not the figures."""


class Replayer:
    """Goes through the instances of one schema with one compiled schema.

    Args:
        words: int32 words in a mask.
        eos_ids: ids that end a sequence.
    """

    def __init__(self, words: int, eos_ids: tuple[int, ...]) -> None:
        self.row: MaskTable = np.zeros((1, words), dtype=np.int32)
        self.eos_ids = eos_ids

    def first(self, compile: Callable[[], CompiledSchema]) -> tuple[CompiledSchema, Any, int]:
        """From nothing to the first mask.

        Returns:
            the compiled schema, its state before any token, and the nanoseconds all of it took.
        """
        row = self.row
        begun = clock()
        compiled = compile()
        state = compiled.start()
        (target,) = compiled.targets(row)
        compiled.fill(state, *target)
        took = clock() - begun
        compiled.check(state)
        return compiled, state, took

    def replay(
        self,
        compiled: CompiledSchema,
        state: Any,
        took: int,
        instances: list[Instance],
        watch: MaskObserver | None = None,
    ) -> ReplayPass:
        """Every instance, from the first mask on; `state` and the row are as `first` left them."""
        done = ReplayPass(took)
        for number, instance in enumerate(instances):
            filled = number == 0
            seen = None if watch is None else _numbered(watch, number)
            start = state if filled else compiled.start()
            done.replays.append(self._one(compiled, start, instance, filled=filled, watch=seen))
        return done

    def _one(
        self,
        compiled: CompiledSchema,
        state: Any,
        instance: Instance,
        *,
        filled: bool,
        watch: Callable[[int, MaskTable], None] | None,
    ) -> InstanceReplay:
        commit, in_place, row = compiled.commit, compiled.in_place, self.row[0]
        (target,) = compiled.targets(self.row)
        fill = timed_fill(compiled.fill, target)
        masks: list[int | None] = []
        commits: list[int] = []

        def ended(accepted: bool, at: int | None) -> InstanceReplay:
            return InstanceReplay(instance.valid, accepted, at, masks, commits)

        for position, token in enumerate(instance.tokens):
            if filled and position == 0:
                masks.append(None)
            else:
                masks.append(fill(state))
                compiled.check(state)
            if watch is not None:
                watch(position, self.row)
            if not allows(row, token):
                return ended(False, position)
            begun = clock()
            result = commit(state, token)
            commits.append(clock() - begun)
            if result == 0:
                raise EngineFault(f"token {token} is allowed by the mask and refused by the commit")
            if not in_place:
                state = result
            compiled.check(state)
        masks.append(fill(state))
        compiled.check(state)
        if watch is not None:
            watch(len(instance.tokens), self.row)
        if compiled.complete is not None:
            complete = compiled.complete(state)
        else:
            complete = any(allows(row, token) for token in self.eos_ids)
        return ended(complete, None if complete else len(instance.tokens))

    def batch(
        self, compiled: CompiledSchema, instances: list[Instance], replayed: ReplayPass, count: int
    ) -> BatchTimes | None:
        """The masks of `count` states, spread evenly over everything that was allowed; None without instances.

        Each round writes every mask into a row of its own, once by single calls and once by one call for all.
        """
        places = [
            (i, position)
            for i, replay in enumerate(replayed.replays)
            for position in range(len(replay.commit_ns) + 1)
        ]
        if not places or compiled.fill_many is None or (compiled.in_place and compiled.fork is None):
            return None
        wanted = [places[k * len(places) // count] for k in range(count)]
        states = _states(compiled, instances, wanted)
        rows: MaskTable = np.zeros((count, self.row.shape[1]), dtype=np.int32)
        fill, fill_many = timed_fills(compiled.fill, compiled.targets(rows)), compiled.fill_many
        batch = BatchTimes(count, [], [])
        for _ in range(_ROUNDS):
            batch.single_ns.append(fill(states))
            singly = rows.copy()
            rows.fill(0)
            begun = clock()
            fill_many(states, rows)
            batch.many_ns.append(clock() - begun)
            if not np.array_equal(rows, singly):
                raise EngineFault("masks of one call for many states differ from those of single calls")
        followed = [
            (state, instances[i].tokens[position])
            for state, (i, position) in zip(states, wanted, strict=True)
            if position < len(replayed.replays[i].commit_ns)
        ]
        if followed and (compiled.rollback is not None or not compiled.in_place):
            batch.forks = len(followed)
            batch.fork_ns = [_forked(compiled, followed) for _ in range(_ROUNDS)]
        return batch


def _forked(compiled: CompiledSchema, followed: list[tuple[Any, int]]) -> int:
    """Nanoseconds to copy every state, and to take a token back on every copy; the commit between is not counted."""
    commit = compiled.commit
    if not compiled.in_place:  # a state that nothing changes is its own copy
        begun = clock()
        copies = [state for state, _ in followed]
        took = clock() - begun
        texts = [[copy, commit(copy, token)] for copy, (_, token) in zip(copies, followed, strict=True)]
        begun = clock()
        for text in texts:
            text.pop()
        return took + clock() - begun
    fork, rollback = compiled.fork, compiled.rollback
    assert fork is not None
    assert rollback is not None
    begun = clock()
    copies = [fork(state) for state, _ in followed]
    took = clock() - begun
    for copy, (_, token) in zip(copies, followed, strict=True):
        commit(copy, token)
    begun = clock()
    for copy in copies:
        rollback(copy, 1)
    took += clock() - begun
    for copy in copies:
        compiled.check(copy)
    return took


def _states(compiled: CompiledSchema, instances: list[Instance], wanted: list[tuple[int, int]]) -> list[Any]:
    """A state of its own for each (instance, position)."""
    states = []
    for number, position in wanted:
        state = compiled.start()
        if compiled.in_place:
            assert compiled.fork is not None
            state = compiled.fork(state)
        for token in instances[number].tokens[:position]:
            result = compiled.commit(state, token)
            if not compiled.in_place:
                state = result
        states.append(state)
    return states


def _numbered(watch: MaskObserver, number: int) -> Callable[[int, MaskTable], None]:
    return lambda position, row: watch(number, position, row)


# ---------------------------------------------------------------- calls of `fill`

# Written out as a user would write them: ``fill(state, *target)`` builds a list and a tuple first, which takes as long as a
# known mask on a slow machine.


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
