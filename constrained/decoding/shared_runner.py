"""`SharedRunner`: jobs of several callers share the forward passes of one model."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from collections.abc import Generator as Steps
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any
from weakref import WeakKeyDictionary

from constrained.decoding.generator import Generator
from constrained.decoding.output import Output
from constrained.decoding.request import DecodingRequest
from constrained.decoding.request_batch import request_runner
from constrained.decoding.request_runner import BatchedRequest, RequestRunner
from constrained.models import LanguageModel

RequestSteps = Steps[list[BatchedRequest], None, Any]
"""The work of a job: yields requests that may run side by side, and goes on when all of them have outcomes, or in the next step where it
yields none, so that others get theirs between two of its readings; its return value is the job's result."""

MAX_ROWS = 64
"""Most requests in a batch that threads share; further ones wait for a place."""


class SharedJob:
    """A job and the requests that it waits for: none of them before its first step.

    Attributes:
        future: gets its result. Cancelling it, or ending it with an error, ends the job.
    """

    def __init__(self, steps: RequestSteps) -> None:
        self.steps = steps
        self.open: list[BatchedRequest] = []
        self.future: Future[Any] = Future()


class SharedRunner:
    """Runs the steps of several jobs in one `RequestRunner`. For one thread, which drives it by `step`."""

    def __init__(self, runner: RequestRunner, between: Callable[[], None] | None = None) -> None:
        """A runner without jobs.

        Args:
            runner: decodes the requests.
            between: called between what two jobs do themselves; it leaves this runner alone.
        """
        self._runner, self._between = runner, between
        self._jobs: list[SharedJob] = []
        self._owners: dict[BatchedRequest, SharedJob] = {}
        self._ended: list[Future[Any]] = []

    def __len__(self) -> int:
        """Jobs that have not ended."""
        return len(self._jobs)

    @property
    def wants_more(self) -> bool:
        """Whether there is a row for another job, beyond the requests that wait for theirs."""
        begun = sum(not job.open for job in self._jobs)
        return begun + len(self._runner) < self._runner.max_rows

    def begin(self, job: SharedJob | RequestSteps) -> Future[Any]:
        """Begins a job.

        Args:
            job: its steps.

        Returns:
            What gets its result. Cancel it to drop the job, and to free its rows, before the next step.
        """
        job = job if isinstance(job, SharedJob) else SharedJob(job)
        self._jobs.append(job)
        return job.future

    def step(self) -> list[Future[Any]]:
        """One step of all jobs; returns the futures of those that ended."""
        for job in list(self._jobs):
            if job.future.done():
                self._drop(job)
            elif not job.open:
                self._resume(job)
        for request in self._runner.step():
            job = self._owners.pop(request)
            job.open.remove(request)
            if not job.open:
                self._resume(job)
        ended, self._ended = self._ended, []
        return ended

    def clear(self, error: BaseException | None = None) -> None:
        """Ends all jobs, with an error or as cancelled ones, and drops the KV cache."""
        for job in list(self._jobs):
            self._drop(job)
            with contextlib.suppress(InvalidStateError):
                job.future.cancel() if error is None else job.future.set_exception(error)
        self._runner.clear()

    def _resume(self, job: SharedJob) -> None:
        """Lets a job go on until it waits or ends."""
        ended = True
        with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
            try:
                job.open = list(next(job.steps))
                ended = False
            except StopIteration as end:
                job.future.set_result(end.value)
            except Exception as error:
                job.future.set_exception(error)
        if ended:
            self._jobs.remove(job)
            self._ended.append(job.future)
        for request in job.open:
            self._owners[request] = job
            self._runner.add(request)
        if self._between is not None:
            self._between()

    def _drop(self, job: SharedJob) -> None:
        self._jobs.remove(job)
        job.steps.close()
        for request in job.open:
            request.cancelled = True
            del self._owners[request]


class BackgroundRunner:
    """A `SharedRunner` in a thread that lives while there is work. Safe to share between threads.

    The thread ends when its last job has ended, and the next one starts another: there is nothing to shut down, and an
    interpreter that exits waits for the jobs that have begun, no longer.
    """

    def __init__(self) -> None:
        """A runner without jobs; its thread starts with the first one."""
        self._lock = threading.Lock()
        self._submitted: deque[SharedJob] = deque()
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, generator: Generator[Any]) -> BackgroundRunner:
        """The runner that a generator shares with those of the same model, apart from those that speculate differently."""
        with _guard:
            runners = _runners.setdefault(generator.model, {})
            return runners.setdefault(generator._drafting is None, cls())

    def submit(self, generator: Generator[Any], steps: RequestSteps, *, closes: bool = False) -> Future[Any]:
        """Queues a job; the arguments besides its steps are those of `request_runner`, for a new thread.

        Returns:
            As of `SharedRunner.begin`.
        """
        job = SharedJob(steps)
        with self._lock:
            if self._thread is None:
                shared = SharedRunner(request_runner(generator, MAX_ROWS, closes=closes))
                self._thread = threading.Thread(target=self._run, args=(shared,), name="constrained-requests")
                self._thread.start()  # waits for the lock
            self._submitted.append(job)
        return job.future

    def run(
        self, requests: Sequence[tuple[Generator[Any], DecodingRequest]], deadline: float | None = None
    ) -> list[Output[Any]]:
        """Decodes requests; blocks until all have ended.

        Args:
            requests: what to decode, each with the generator that made it; at least one.
            deadline: as `time.monotonic` has it; None: no limit.

        Raises:
            TimeoutError: the deadline has passed.
            ConstrainedError: a request failed.
        """
        members = [BatchedRequest(generator, request) for generator, request in requests]
        outputs: list[Output[Any]] = self.run_steps(requests[0][0], _outputs(members), deadline)
        return outputs

    def run_steps(self, generator: Generator[Any], steps: RequestSteps, deadline: float | None = None) -> Any:
        """The result of a job; blocks until it has ended. Arguments and errors are those of `submit` and `run`."""
        future = self.submit(generator, steps)
        try:
            return future.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except FutureTimeout as error:
            raise TimeoutError("the model took longer than the timeout of this call") from error
        finally:
            future.cancel()

    def _run(self, shared: SharedRunner) -> None:
        while self._admit(shared):
            try:
                shared.step()
            except BaseException as error:  # none of the jobs can go on
                shared.clear(error)

    def _admit(self, shared: SharedRunner) -> bool:
        """Begins the jobs that there is room for; False: no job is left, and the thread ends."""
        with self._lock:
            while self._submitted and shared.wants_more:
                shared.begin(self._submitted.popleft())
            if not shared:
                self._thread = None
        return len(shared) > 0


_runners: WeakKeyDictionary[LanguageModel, dict[bool, BackgroundRunner]] = WeakKeyDictionary()
_guard = threading.Lock()


def _outputs(members: list[BatchedRequest]) -> RequestSteps:
    """The job of requests that belong together: their outputs, or the error of the first that failed."""
    yield members
    for member in members:
        if isinstance(member.outcome, Exception):
            raise member.outcome
    return [member.outcome for member in members]
