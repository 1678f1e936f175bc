"""The thread that owns the model: requests join the batch between two steps, and leave it when they end.

Where the batch is full, requests wait; clients are admitted in turn (round robin). One eighth of the batch is kept for clients that
have nothing in it: long texts of one client would hold up all others.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from constrained.decoding.continuous_batch import PIECE, ContinuousBatch
from constrained.decoding.request_batch import RequestBatch
from constrained.decoding.shared_runner import SharedRunner
from constrained.decoding.speculation import DraftScheduler
from constrained.models import LanguageModel
from constrained.models.memory import batch_token_limit
from constrained.server.errors import ApiError, stopping_error
from constrained.server.jobs import Job, QueuedSteps
from constrained.server.round_robin import RoundRobin
from constrained.server.sequence_stream import SequenceStream

_log = logging.getLogger(__name__)

MAX_PREFILL_TOKENS = 512
"""Prompt tokens read between two steps (at least one prompt), to bound the delay of running sequences."""

MAX_PREFILL_PROMPTS = 8
"""Prompts read between two steps, which matters where they are short: each of them is a forward pass."""


class Scheduler:
    """Decodes the sequences of all requests in one continuous batch, in a thread of its own.

    An error within a step ends the sequences of that step. After an unexpected error of the thread itself the state of
    its memory is unknown, so it is not restarted and accepts no more jobs.

    Attributes:
        steps: steps so far.
        beside: jobs with steps of their own, such as extractions; for the thread alone.
        failure: type of the error that ended the thread; None while it runs, and after a `stop`.
        on_failure: called by the thread when it fails.

    Args:
        model: used by this thread only.
        max_sequences: largest batch.
        speculation: as in `ContinuousBatch`.
        speculation_max_batch: as in `ContinuousBatch`.
    """

    def __init__(
        self,
        model: LanguageModel,
        max_sequences: int,
        speculation: DraftScheduler | None = None,
        *,
        speculation_max_batch: int | None = None,
    ) -> None:
        self._model = model
        self._drafted = speculation_max_batch
        self._drafting = speculation
        self._rows = max_sequences
        self._batch: ContinuousBatch[SequenceStream] = ContinuousBatch(
            model, speculation, speculation_max_batch=speculation_max_batch
        )
        room = batch_token_limit(model)
        runner = RequestBatch(
            model, speculation, max_rows=max_sequences, max_tokens=room, between=self._repay
        )
        self.beside = SharedRunner(runner, between=self._repay)
        self._held_since = 0.0  # since when a prompt or an extraction holds up the others
        self._kept = max(1, max_sequences // 8) if max_sequences > 1 else 0
        self._changed = threading.Condition()  # guards what follows
        self._waiting: RoundRobin[Job] = RoundRobin()
        self._running: list[Job] = []
        self._stopping = self._shedding = self._reading = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._began = False
        self.steps = 0
        self.failure: str | None = None
        self.on_failure: Callable[[], None] = lambda: None

    def warm_up(self) -> None:
        """Does what would hold up the first steps; only before the start."""
        drafted = self._rows if self._drafted is None else self._drafted
        self._model.warm_up(self._rows, 0 if self._drafting is None else drafted)

    def start(self) -> None:
        """Starts the thread."""
        self._began = True
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Puts a job at the end of the queue.

        Raises:
            ApiError: 503, the scheduler accepts no more jobs.
        """
        with self._changed:
            if self.failure is not None:
                raise self._dead()
            if self._stopping:
                raise stopping_error()
            self._waiting.put(job.client, job)
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Cancels a job: its memory is freed before the next step."""
        with self._changed:
            job.cancel()
            self._changed.notify()

    def shed(self) -> None:
        """Ends a running job before the next step, to free its memory: the last one of the client with most sequences."""
        with self._changed:
            self._shedding = True
            self._changed.notify()

    def stop(self) -> None:
        """Ends all jobs with an error, and then the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._began:
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        with self._changed:
            return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return self._sizes().total()

    def _sizes(self) -> Counter[str]:
        """Sequences in the batch, of each client."""
        sizes: Counter[str] = Counter()
        for job in list(self._running):
            sizes[job.client] += sum(not text.finished for text in job.sequences)
        return sizes

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            _log.critical("the scheduler failed and the server cannot continue", exc_info=error)
            with self._changed:
                self.failure = type(error).__name__
            self._fail(self._dead())
            self.on_failure()

    def _dead(self) -> ApiError:
        what = f"the scheduler failed and the server cannot continue: {self.failure}"
        return ApiError(503, what, code="dead", headers={"Retry-After": "1"})

    def _fail(self, error: ApiError) -> None:
        """Ends all jobs."""
        with self._changed:
            jobs = [*self._running, *self._waiting]
            self._running, self._waiting = [], RoundRobin()
        for job in jobs:
            job.fail(error)

    def _loop(self) -> None:
        while self._wait():
            if self._shedding:
                self._end_one()
            self._admit()
            self._step()
            if len(self.beside):
                self._held_since = time.perf_counter()
                self.beside.step()
                self._repay()
        self._batch.clear()
        self._fail(stopping_error())
        self.beside.clear()

    def _step(self, reading: Job | None = None) -> None:
        """A step of the batch, while the prompt of `reading` is read."""
        try:
            self._batch.step()
        except Exception as error:  # the model failed: no sequence of this batch can continue
            self._batch.clear()
            for job in self._running:
                if job.sequences:
                    job.fail(error)
        self.steps += 1
        self._deliver(reading)

    def _deliver(self, reading: Job | None = None) -> None:
        """Sends what is new of all jobs but `reading`, and takes those out that have ended."""
        for job in self._running:
            if job is not reading:
                job.deliver()
        self._running = [job for job in self._running if job is reading or not job.finished]

    def _end_one(self) -> None:
        self._shedding = False
        sizes = self._sizes()
        if sizes:
            ((client, _),) = sizes.most_common(1)
            last = next(job for job in reversed(self._running) if job.client == client)
            last.fail(MemoryError("the process runs out of memory"))
            self._running.remove(last)

    def _wait(self) -> bool:
        """Waits for jobs; False when the scheduler is to stop."""
        with self._changed:
            while not (self._stopping or self._waiting or self._running or len(self.beside)):
                self._changed.wait()
            return not self._stopping

    def _admit(self, longest: int | None = None) -> None:
        """Adds waiting jobs to the batch while they fit; with `longest`, those with no more tokens to read. None while one of those is read."""
        if self._reading:
            return
        self._batch.remove_finished()
        self._reading = longest is not None
        read = prompts = 0
        while (
            read < MAX_PREFILL_TOKENS
            and prompts < MAX_PREFILL_PROMPTS
            and (job := self._next(longest)) is not None
        ):
            self._running.append(job)
            prompts, read = prompts + 1, read + job.unread
            self._held_since = time.perf_counter()
            try:
                job.begin(self._batch, functools.partial(self._repay, job))
            except Exception as error:
                job.fail(error)
        self._reading = False

    def _repay(self, reading: Job | None = None) -> None:
        """Steps of the others for as long as the prompt of `reading`, or extractions, have held them up, at least one.

        So a chat takes twice its time at most, and the longest piece: some tokens of a prompt, or of what may be said.
        """
        end = 2 * time.perf_counter() - self._held_since
        while True:
            self._step(reading)
            self._admit(PIECE)
            if not self._batch.sequences or time.perf_counter() >= end:
                break
        self._held_since = time.perf_counter()

    def _next(self, longest: int | None) -> Job | None:
        """Takes the next job out of the queue, in turns of clients; None if nobody waits, or it does not fit yet.

        Clients whose job has more than `longest` tokens to read are passed over, and those that have all of the batch that is not kept
        for others.

        No smaller job is taken in its place: a large one would wait forever.
        """
        with self._changed:
            self._waiting.drop(lambda job: job.cancelled)
            sizes = self._sizes()

            def ready(client: str) -> bool:
                job, own = self._waiting.first(client), sizes[client]
                short = longest is None or job.unread <= longest
                if isinstance(job, QueuedSteps):
                    return short and self.beside.wants_more
                return short and (not own or own + len(job.sequences) <= self._rows - self._kept)

            client = self._waiting.next(ready)
            if client is None:
                return None
            running = sizes.total()
            if running and running + len(self._waiting.first(client).sequences) > self._rows:
                return None
            return self._waiting.pop(client)
