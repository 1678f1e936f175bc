"""Worker processes that call the functions of a predicate, and are killed at a timeout.

Each is a fresh interpreter that receives the functions once, and then one call at a time. It ignores Ctrl-C, which the
parent handles; the parent always waits with a time limit, so that it can be interrupted.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from constrained.errors import PredicateError, Problem
from constrained.predicates.failures import PredicateTimeout, WorkerCrashed

_START_SECONDS = 60.0
"""Time limit for loading the functions."""

_GLANCE = 1.0
"""Seconds between two checks that a process without a time limit is alive."""

ErrorFactory = Callable[[Any, BaseException], PredicateError]


class WorkerPool:
    """Worker processes of one predicate. Calls from several threads take turns."""

    def __init__(self, name: str, functions: Mapping[Any, Any], count: int, timeout: float | None) -> None:
        """Creates the pool; processes start at their first call.

        Args:
            name: name of the predicate.
            functions: function of each kind of check; must be picklable.
            count: greatest number of processes.
            timeout: time limit of a call in seconds, or None.
        """
        self._name = name
        self._payload = pickle.dumps(dict(functions))
        self._timeout = timeout
        self._workers: list[_Worker | None] = [None] * count
        self._turn = threading.Lock()

    def run(self, question: Any, jobs: Sequence[Any], failed: ErrorFactory) -> Iterator[tuple[Any, Any]]:
        """Yields (job, result) in the order in which calls end.

        Args:
            question: kind of check.
            jobs: arguments, one for each call.
            failed: makes the error from a job and its cause: the exception of the function, `PredicateTimeout` or
                `WorkerCrashed`.

        Raises:
            PredicateError: a call failed. The processes of all running calls are killed.
        """
        with self._turn:
            waiting = list(reversed(jobs))
            busy: dict[Connection, tuple[int, Any, float | None]] = {}
            try:
                while waiting or busy:
                    free = [
                        i
                        for i in range(len(self._workers))
                        if i not in {slot for slot, _, _ in busy.values()}
                    ]
                    for slot in free[: len(waiting)]:
                        job = waiting.pop()
                        worker = self._worker(slot)
                        worker.pipe.send((question, job))
                        limit = None if self._timeout is None else time.monotonic() + self._timeout
                        busy[worker.pipe] = (slot, job, limit)
                    for pipe in self._ready(busy):
                        slot, job, _ = busy.pop(pipe)
                        yield job, self._received(slot, pipe, job, failed)
                    for _, job, limit in list(busy.values()):
                        if limit is not None and time.monotonic() >= limit:
                            late = PredicateTimeout(f"no result within {self._timeout:g} s")
                            raise failed(job, late) from late
            finally:
                # After an error or an interrupt, a late result would be mistaken for that of the next call.
                for slot, _, _ in busy.values():
                    self._end(slot)

    def close(self) -> None:
        """Ends all processes."""
        for slot in range(len(self._workers)):
            self._end(slot)

    def _ready(self, busy: Mapping[Connection, tuple[int, Any, float | None]]) -> list[Any]:
        limits = [limit for _, _, limit in busy.values() if limit is not None]
        left = min(limits) - time.monotonic() if limits else _GLANCE
        return wait(list(busy), timeout=max(0.0, left))

    def _received(self, slot: int, pipe: Connection, job: Any, failed: ErrorFactory) -> Any:
        try:
            good, given = pipe.recv()
        except (EOFError, OSError):
            worker = self._workers[slot]
            code = None if worker is None else worker.exit_code()
            self._end(slot)
            died = WorkerCrashed(f"ended its process, with code {code}")
            raise failed(job, died) from died
        if good:
            return given
        error = _raised(*given)
        raise failed(job, error) from error

    def _worker(self, slot: int) -> _Worker:
        worker = self._workers[slot]
        if worker is None:
            worker = _Worker(self._payload)
            self._workers[slot] = worker
            try:
                worker.expect_start(self._name)
            except BaseException:
                self._end(slot)
                raise
        return worker

    def _end(self, slot: int) -> None:
        worker, self._workers[slot] = self._workers[slot], None
        if worker is not None:
            worker.end()


class _Worker:
    """One process."""

    def __init__(self, payload: bytes) -> None:
        # Not a fork: that would copy the locks of other threads, and the model.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, payload), daemon=True)
        self._process.start()
        theirs.close()
        self._finalizer = weakref.finalize(self, _kill, self._process, self.pipe)

    def expect_start(self, name: str) -> None:
        """Waits until the process has loaded the functions.

        Raises:
            PredicateError: the process could not load them.
        """
        problem = f"did not start within {_START_SECONDS:g} s"
        try:
            if self.pipe.poll(_START_SECONDS):
                problem = self.pipe.recv()
        except (EOFError, OSError):
            problem = f"ended while it started, with code {self.exit_code()}"
        if problem:
            raise PredicateError(
                f"the predicate {name} failed",
                Problem("its worker process", problem),
                action="define the function in a module that can be imported, not in a shell; in a script, start "
                'work under `if __name__ == "__main__":`',
                predicate=name,
            )

    def exit_code(self) -> int | None:
        """The exit code of the process."""
        self._process.join(5)
        return self._process.exitcode

    def end(self) -> None:
        """Kills the process."""
        self._finalizer()


def _kill(process: Any, pipe: Connection) -> None:
    pipe.close()
    if process.is_alive():
        process.kill()
    process.join()
    process.close()


def _raised(pickled: bytes, text: str) -> BaseException:
    """The exception of a function, or a RuntimeError with its text if it cannot be pickled."""
    with contextlib.suppress(Exception):
        error = pickle.loads(pickled)
        if isinstance(error, BaseException):
            return error
    return RuntimeError(text)


def _serve(pipe: Connection, payload: bytes) -> None:
    """Main function of a worker process: loads the functions, then serves calls until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        functions = pickle.loads(payload)
    except BaseException as error:
        pipe.send(f"could not load the function: {type(error).__name__}: {error}")
        return
    pipe.send("")
    while True:
        try:
            question, job = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            reply = (True, functions[question](job))
        except Exception as error:
            reply = (False, _packed(error))
        try:
            pipe.send(reply)
        except (BrokenPipeError, OSError):
            return
        except Exception as error:  # the result cannot be pickled, so it is not a bool
            pipe.send((False, _packed(TypeError(f"its result cannot be pickled: {error}"))))


def _packed(error: BaseException) -> tuple[bytes, str]:
    pickled = b""
    with contextlib.suppress(Exception):
        pickled = pickle.dumps(error)
    return pickled, f"{type(error).__name__}: {error}"
