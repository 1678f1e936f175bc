"""The thread that owns the model: requests join the batch between two steps, and leave it when they end.

Clients are served in turn, see `constrained.server.seats`: sequences that are not chosen for a step sit it out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.decoding.speculation import DraftScheduler
from constrained.models import LanguageModel
from constrained.server.lane import Lane
from constrained.server.seats import Seats
from constrained.server.sequence_stream import SequenceDelta, SequenceStream

_log = logging.getLogger(__name__)

DeltaCallback = Callable[[list[SequenceDelta]], None]
"""Receives the new deltas of a request; called in the scheduler's thread, and must not block."""

_MOMENT = 0.02
"""Seconds between two looks at a batch in which every sequence is parked."""

MAX_PREFILL_TOKENS = 512
"""Prompt tokens read between two steps (at least one prompt), to bound the delay of running sequences."""

ADMIT_SECONDS = 0.005
"""Seconds after which no further prompt is read between two steps while several clients are about."""


class QueuedRequest:
    """The sequences for one prompt of a request.

    Attributes:
        sequences: in the order of their indices.
        client: whose time they take.

    Args:
        texts: its sequences.
        tell: receives their deltas.
        client: see above.
        streams: tell each new delta; False: of each sequence the first one, and when it ends the rest of it. Whom it is told
            to has less to do then.
    """

    def __init__(
        self, texts: Sequence[SequenceStream], tell: DeltaCallback, client: str = "", *, streams: bool = True
    ) -> None:
        self.sequences = list(texts)
        self.client = client
        self.cancelled = False
        self._tell = tell
        self._streams = streams
        self._begun: set[int] = set()  # indices of sequences whose first delta has been told

    @property
    def finished(self) -> bool:
        """Whether all sequences are finished."""
        return all(text.finished for text in self.sequences)

    def deliver(self) -> None:
        """Passes the new deltas to the callback."""
        ready = [text for text in self.sequences if not text.parked]
        if not self._streams:
            ready = [text for text in ready if text.finished or text.index not in self._begun]
        pieces = [piece for text in ready if (piece := text.pop_delta()) is not None]
        self._begun.update(piece.index for piece in pieces)
        if pieces and not self.cancelled:
            self._tell(pieces)

    def take_draw_seconds(self) -> float:
        """Seconds of its draws since the last call."""
        ready = [text for text in self.sequences if not text.parked]
        seconds = sum(text.draw_seconds for text in ready)
        for text in ready:
            text.draw_seconds = 0.0
        return seconds

    def fail(self, error: Exception) -> None:
        """Ends all unfinished sequences with an error."""
        for text in self.sequences:
            if not text.finished:
                text.fail(error)
        self.deliver()


class ServerStopped(RuntimeError):
    """The server stopped before a sequence was finished.

    Attributes:
        dead: the scheduler's thread failed; it was not stopped on purpose.
    """

    def __init__(self, message: str, *, dead: bool = False) -> None:
        super().__init__(message)
        self.dead = dead


class Scheduler:
    """Decodes the sequences of all requests in one continuous batch, in a thread of its own.

    An error within a step ends the sequences of that step. After an unexpected error of the thread itself the state of
    its memory is unknown, so it is not restarted and accepts no more jobs.

    Attributes:
        steps: steps so far.
        parked: sequences whose next token another thread draws.
        held: sequences that sit steps out, because other clients have their turn.
        failure: type of the error that ended the thread; None while it runs, and after a `stop`.
        on_failure: called by the thread when it fails.

    Args:
        model: used by this thread only.
        max_sequences: largest batch. As many sequences again can sit steps out.
        speculation: as in `ContinuousBatch`.
        speculation_max_batch: as in `ContinuousBatch`.
        draw_seconds: limit of the time of a sequence's slow draws, see `Lane`.
    """

    def __init__(
        self,
        model: LanguageModel,
        max_sequences: int,
        speculation: DraftScheduler | None = None,
        *,
        speculation_max_batch: int | None = None,
        draw_seconds: float = 30.0,
    ) -> None:
        self._model = model
        self._lane = Lane(draw_seconds, self._wake)
        self._drafted = speculation_max_batch
        self._drafting = speculation
        self._rows = max_sequences
        self._seats: Seats[SequenceStream] = Seats(max_sequences)
        self._changed = threading.Condition()
        self._waiting: deque[QueuedRequest] = deque()
        self._running: list[QueuedRequest] = []
        self._stopping = self._shedding = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._began = False
        self.steps = 0
        self.parked = self.held = 0
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

    def submit(self, job: QueuedRequest) -> None:
        """Puts a job at the end of the queue.

        Raises:
            ServerStopped: the scheduler accepts no more jobs.
        """
        with self._changed:
            if self.failure is not None:
                raise self._dead()
            if self._stopping:
                raise ServerStopped("the server is stopping")
            self._waiting.append(job)
            self._changed.notify()

    def cancel(self, job: QueuedRequest) -> None:
        """Cancels a job: its callback is not called again, and its memory is freed before the next step."""
        with self._changed:
            job.cancelled = True
            for text in job.sequences:
                text.cancelled = True
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
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return sum(not text.finished for job in list(self._running) for text in job.sequences)

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            _log.critical("the scheduler failed and the server cannot continue", exc_info=error)
            with self._changed:
                self.failure = type(error).__name__
            self._fail(self._dead())
            self.on_failure()
        finally:
            self._lane.close()

    def _dead(self) -> ServerStopped:
        return ServerStopped(
            f"the scheduler failed and the server cannot continue: {self.failure}", dead=True
        )

    def _fail(self, error: ServerStopped) -> None:
        """Ends all jobs."""
        with self._changed:
            jobs = [*self._running, *self._waiting]
            self._running = []
            self._waiting.clear()
        for job in jobs:
            job.fail(error)

    def _loop(self) -> None:
        batch: ContinuousBatch[SequenceStream] = ContinuousBatch(
            self._model, self._drafting, speculation_max_batch=self._drafted, drawing=self._lane
        )
        while self._wait():
            if self._shedding:
                self._end_one()
            self._admit(batch)
            batch.choose(self._seats.choose(self._groups()))
            self.held = batch.held
            began, stepped = time.monotonic(), list(batch.sequences)
            try:
                batch.step()
            except Exception as error:  # the model failed: no sequence of this batch can continue
                batch.clear()
                for job in self._running:
                    job.fail(error)
            self.steps += 1
            self._charge(stepped, time.monotonic() - began)
            for job in self._running:
                job.deliver()
            self._running = [job for job in self._running if not job.finished]
            self.parked = batch.parked
            if not self._running:  # whoever sat out, or was parked, may have been given up during the step
                self.held = self.parked = 0
            if batch.parked and not batch.sequences:
                self._wait_for_parked()
        batch.clear()
        self._fail(ServerStopped("the server was stopped"))

    def _end_one(self) -> None:
        self._shedding = False
        sizes: Counter[str] = Counter()
        for job in self._running:
            sizes[job.client] += sum(not text.finished for text in job.sequences)
        if sizes:
            ((client, _),) = sizes.most_common(1)
            last = next(job for job in reversed(self._running) if job.client == client)
            last.fail(MemoryError("the process runs out of memory"))
            self._running.remove(last)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _wait_for_parked(self) -> None:
        """Waits a moment for what can go on: a parked sequence, a new job, a time limit."""
        with self._changed:
            if not self._stopping:
                self._changed.wait(_MOMENT)

    def _wait(self) -> bool:
        """Waits for jobs; False when the scheduler is to stop."""
        with self._changed:
            while not (self._stopping or self._waiting or self._running):
                self._changed.wait()
            return not self._stopping

    def _groups(self) -> dict[str, list[SequenceStream]]:
        """The sequences of each client that can take part in a step."""
        groups: dict[str, list[SequenceStream]] = {}
        for job in self._running:
            ready = [text for text in job.sequences if not (text.finished or text.parked)]
            if ready:
                groups.setdefault(job.client, []).extend(ready)
        return groups

    def _charge(self, stepped: Sequence[SequenceStream], seconds: float) -> None:
        """Shares the time of a step: a draw is that of its sequence, the rest is that of the step's clients alike."""
        if stepped and not any(text.parked for text in stepped):
            self._seats.costs.record(len(stepped), seconds)
        drawn: dict[str, float] = {}
        for job in self._running:
            drawn[job.client] = drawn.get(job.client, 0.0) + job.take_draw_seconds()
        took_part = set(map(id, stepped))
        clients = {job.client for job in self._running if not took_part.isdisjoint(map(id, job.sequences))}
        rest = max(0.0, seconds - sum(drawn[client] for client in clients)) / max(1, len(clients))
        for client, own in drawn.items():
            self._seats.charge(client, own + (rest if client in clients else 0.0))

    def _admit(self, batch: ContinuousBatch[SequenceStream]) -> None:
        """Adds waiting jobs to the batch while they fit: of the client that has had least time, its first."""
        batch.remove_finished()
        read, started = 0, time.monotonic()
        while read < MAX_PREFILL_TOKENS and (job := self._next()) is not None:
            self._running.append(job)
            read += len(job.sequences[0].sequence.unread)
            began = time.monotonic()
            try:
                batch.add(job.sequences)
            except Exception as error:
                job.fail(error)
            self._seats.charge(job.client, time.monotonic() - began)
            job.take_draw_seconds()  # that time was part of it
            if self._seats.shared and time.monotonic() - started >= ADMIT_SECONDS:
                break

    def _next(self) -> QueuedRequest | None:
        """The next job to be admitted, out of the queue; None if there is none for which there is room."""
        with self._changed:
            self._waiting = deque(job for job in self._waiting if not job.cancelled)
            self._seats.enter({job.client for job in (*self._running, *self._waiting)})
            firsts: dict[str, QueuedRequest] = {}
            for job in self._waiting:
                firsts.setdefault(job.client, job)
            busy: Counter[str] = Counter()
            for job in self._running:
                busy[job.client] += sum(not text.finished for text in job.sequences)
            wanting = {*self._groups(), *firsts}
            for client in sorted(firsts, key=self._seats.had):
                wanted = busy.total() + len(firsts[client].sequences)
                # A client that has nothing in the batch gets its seat at once: sequences of others sit out.
                most = 2 * self._rows if self._seats.shared and not busy[client] else self._rows
                if not busy.total() or (wanted <= most and busy[client] < self._seats.most(client, wanting)):
                    self._waiting.remove(firsts[client])
                    return firsts[client]
            return None
