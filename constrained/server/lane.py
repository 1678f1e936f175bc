"""Draws the next tokens of a batch in a thread that the scheduler can leave behind with a slow one.

A mask of a hostile constraint may take a second. The native call releases the GIL, so the other sequences go on without it:
the slow one is parked until its token is there.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from constrained.sampling import Distribution
from constrained.server.errors import ApiError
from constrained.server.sequence_stream import SequenceStream

PATIENCE = 0.02
"""Seconds that the batch waits for the draws of a step. A sequence that took longer than this draws its next token elsewhere."""

_LEAST_PATIENCE = 0.01
"""Seconds that it waits for a sequence in any case, however long others of the step have taken."""

_Follow = Callable[[SequenceStream], Distribution | None]


class Lane:
    """Draws tokens, one sequence after the other. For the scheduler's thread.

    Args:
        limit: seconds that parked draws of one sequence may take in all; then its request fails.
        on_return: called by another thread when a parked sequence has its token.
        patience: see `PATIENCE`.
    """

    def __init__(
        self, limit: float, on_return: Callable[[], None] = lambda: None, *, patience: float = PATIENCE
    ) -> None:
        self._limit = limit
        self._on_return = on_return
        self._patience = patience
        self._worker: _DrawThread | None = None
        self._pool = ThreadPoolExecutor(
            max(1, (os.cpu_count() or 1) // 2), thread_name_prefix="slow-draw", initializer=_lower_priority
        )
        self._parked: dict[int, tuple[SequenceStream, float]] = {}  # by id, with the time when the draw began
        self._returned: deque[SequenceStream] = deque()

    def draw(
        self, members: Sequence[SequenceStream], distributions: Sequence[Distribution], follow: _Follow
    ) -> list[SequenceStream]:
        """Draws a token for each sequence.

        Args:
            members: the sequences.
            distributions: of their next tokens.
            follow: the distribution of a further token, if the forward pass has it; None otherwise.

        Returns:
            The sequences that are parked now: they have no token yet, and `follow` is not called for them any more.
        """
        parked: list[SequenceStream] = []
        quick: deque[tuple[SequenceStream, Distribution]] = deque()
        for member, distribution in zip(members, distributions, strict=True):
            if member.slow:
                self._park(member, time.monotonic())
                parked.append(member)
                self._pool.submit(self._draw_slowly, member, distribution)
            else:
                quick.append((member, distribution))
        end = time.monotonic() + self._patience
        while quick:
            turn = _Turn(quick, follow)
            worker = self._worker = self._worker or _DrawThread(self._return)
            worker.turns.put(turn)
            late = turn.wait(end, self._park)
            if late is None:
                break
            parked.append(late)
            _lower_priority(worker)
            worker.turns.put(None)  # ends after this draw: its priority cannot be raised again
            self._worker = None
        return parked

    def returned(self) -> list[SequenceStream]:
        """The sequences that have got their tokens since the last call, not parked any more."""
        ready = []
        while self._returned:
            member = self._returned.popleft()
            if self._parked.pop(id(member), None) is not None:
                member.parked = False
                ready.append(member)
        return ready

    def expire(self) -> list[SequenceStream]:
        """Ends the parked sequences whose draws took too long, or whose clients have gone; returns them.

        The native call of such a draw goes on in its thread, to its own end.
        """
        now = time.monotonic()
        ended = []
        for member, began in list(self._parked.values()):
            if member.cancelled or member.slow_seconds + now - began > self._limit:
                del self._parked[id(member)]
                member.parked = False
                if not member.cancelled:
                    member.fail(_too_slow(self._limit))
                ended.append(member)
        return ended

    def close(self) -> None:
        """Ends the idle threads."""
        if self._worker is not None:
            self._worker.turns.put(None)
            self._worker = None
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _park(self, member: SequenceStream, began: float) -> None:
        member.parked = True
        self._parked[id(member)] = member, began

    def _draw_slowly(self, member: SequenceStream, distribution: Distribution) -> None:
        began = time.monotonic()
        member.advance(distribution)
        self._return(member, began)

    def _return(self, member: SequenceStream, began: float) -> None:
        seconds = time.monotonic() - began
        member.slow = seconds > self._patience
        member.slow_seconds += seconds
        member.draw_seconds += seconds
        self._returned.append(member)
        self._on_return()


class _Turn:
    """The draws of one step, in a worker's thread until the scheduler leaves it."""

    def __init__(self, todo: deque[tuple[SequenceStream, Distribution]], follow: _Follow) -> None:
        self._todo = todo
        self._follow = follow
        self._changed = threading.Condition()  # guards what follows, and every call of `follow`
        self._current: SequenceStream | None = None  # its draw is not over
        self._began = 0.0
        self._done = self._left = False
        self._error: BaseException | None = None

    def work(self) -> tuple[SequenceStream, float] | None:
        """Draws; returns the sequence whose draw ended after the turn was left, and when that draw began."""
        try:
            late = self._work()
        except BaseException as error:
            self._error, late = error, None
        with self._changed:
            self._done = True
            self._changed.notify()
        return late

    def _work(self) -> tuple[SequenceStream, float] | None:
        while True:
            with self._changed:
                if not self._todo:
                    return None
                member, first = self._todo.popleft()
                self._current, self._began = member, time.monotonic()
            distribution: Distribution | None = first
            while distribution is not None:
                member.advance(distribution)
                with self._changed:
                    if self._left:
                        return member, self._began
                    member.draw_seconds += time.monotonic() - self._began
                    self._current = None  # its token is there: a turn that is left now has nothing to park
                    distribution = None if member.finished else self._follow(member)
                    if distribution is not None:
                        self._current, self._began = member, time.monotonic()

    def wait(self, end: float, park: Callable[[SequenceStream, float], None]) -> SequenceStream | None:
        """Waits for the draws until `end`; then leaves the turn when one takes too long, and returns its sequence."""
        with self._changed:
            while not self._done:
                left = max(end, self._began + _LEAST_PATIENCE) - time.monotonic()
                if left > 0 or self._current is None:  # the worker has not begun, or is between two draws
                    self._changed.wait(max(left, _LEAST_PATIENCE))
                else:
                    self._left = True
                    park(self._current, self._began)
                    return self._current
        if self._error is not None:
            raise self._error
        return None


class _DrawThread(threading.Thread):
    """Works turns off until it gets None."""

    def __init__(self, on_late: Callable[[SequenceStream, float], None]) -> None:
        super().__init__(name="draw", daemon=True)
        self.turns: SimpleQueue[_Turn | None] = SimpleQueue()
        self._on_late = on_late
        self.start()

    def run(self) -> None:
        """See the class."""
        while (turn := self.turns.get()) is not None:
            late = turn.work()
            if late is not None:
                self._on_late(*late)
            del turn, late  # a thread that waits keeps no sequence alive


def _too_slow(limit: float) -> ApiError:
    what = f"the masks of the constraint took more than {limit:g} seconds in one completion"
    return ApiError(400, what, code="constraint_too_slow")


def _lower_priority(thread: threading.Thread | None = None) -> None:
    """Lets other threads go first, where the system has priorities of threads (Linux)."""
    native = threading.get_native_id() if thread is None else thread.native_id
    with contextlib.suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, native or 0, 10)
