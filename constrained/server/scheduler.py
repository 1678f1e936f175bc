"""The thread that owns the model: requests join the batch between two steps, and leave it when they end."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from constrained.decoding.continuous_batch import Batch
from constrained.decoding.speculation import Speculation
from constrained.models import LanguageModel
from constrained.server.malloc_trim import Trimming
from constrained.server.sequence_stream import Piece, Text

_log = logging.getLogger(__name__)

Tell = Callable[[list[Piece]], None]
"""Gets what is new of a request; called in the thread of the scheduler, and must not wait."""

PREFILL_TOKENS = 512
"""Tokens of prompts read between two steps (at least one prompt): those that are written do not wait for long."""


class Job:
    """The texts for one prompt of a request.

    Attributes:
        texts: in the order of their indices.
    """

    def __init__(self, texts: Sequence[Text], tell: Tell) -> None:
        self.texts = list(texts)
        self.cancelled = False
        self._tell = tell

    @property
    def finished(self) -> bool:
        """Whether all texts are."""
        return all(text.finished for text in self.texts)

    def tell(self) -> None:
        """Hands over what is new."""
        pieces = [piece for text in self.texts if (piece := text.told()) is not None]
        if pieces and not self.cancelled:
            self._tell(pieces)

    def fail(self, error: Exception) -> None:
        """Ends all texts that are not finished with an error."""
        for text in self.texts:
            if not text.finished:
                text.fail(error)
        self.tell()


class Stopped(RuntimeError):
    """The server was stopped before a text was finished.

    Attributes:
        dead: it did not stop by itself.
    """

    def __init__(self, message: str, *, dead: bool = False) -> None:
        super().__init__(message)
        self.dead = dead


class Scheduler:
    """Writes the texts of all requests.

    What goes wrong within a step ends the texts of that step. If its thread itself dies, of something that nobody
    expected, nothing is known about its memory: it is not begun again, and takes no more jobs.

    Attributes:
        death: what the thread died of; None while it lives, and after a `stop`.
        died: is called by the thread when it dies.

    Args:
        model: is read by this thread alone.
        rows: texts side by side at most. A job with more of them runs alone.
        drafting: as in `Batch`.
        drafted: as in `Batch`.
    """

    def __init__(
        self,
        model: LanguageModel,
        rows: int,
        drafting: Speculation | None = None,
        *,
        drafted: int | None = None,
    ) -> None:
        self._model = model
        self._drafted = drafted
        self._drafting = drafting
        self._rows = rows
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._began = False
        self.steps = 0
        self.death: str | None = None
        self.died: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begins to work."""
        self._began = True
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Puts a job at the end of the queue.

        Raises:
            Stopped: nothing is taken any more.
        """
        with self._changed:
            if self.death is not None:
                raise self._dead()
            if self._stopping:
                raise Stopped("the server is stopping")
            self._waiting.append(job)
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Gives a job up: no more is told of it, and its memory is freed before the next step."""
        with self._changed:
            job.cancelled = True
            for text in job.texts:
                text.cancelled = True
            self._changed.notify()

    def stop(self) -> None:
        """Fails what is still there, and ends the thread."""
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
        """Texts that are being written."""
        return sum(not text.finished for job in list(self._running) for text in job.texts)

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            _log.critical("the scheduler died; nothing can be served any more", exc_info=error)
            with self._changed:
                self.death = type(error).__name__
            self._fail(self._dead())
            self.died()

    def _dead(self) -> Stopped:
        return Stopped(f"the scheduler died of {self.death}: nothing can be served any more", dead=True)

    def _fail(self, error: Stopped) -> None:
        """Ends all jobs."""
        with self._changed:
            jobs = [*self._running, *self._waiting]
            self._running = []
            self._waiting.clear()
        for job in jobs:
            job.fail(error)

    def _loop(self) -> None:
        batch: Batch[Text] = Batch(self._model, self._drafting, drafted=self._drafted)
        trimming = Trimming()
        while self._wait():
            trimming()
            self._admit(batch)
            try:
                batch.step()
            except Exception as error:  # the model itself: nobody in this batch can go on
                batch.clear()
                for job in self._running:
                    job.fail(error)
            self.steps += 1
            for job in self._running:
                job.tell()
            self._running = [job for job in self._running if not job.finished]
        batch.clear()
        self._fail(Stopped("the server was stopped"))

    def _wait(self) -> bool:
        """Waits until there is something to do; False when the work is over."""
        with self._changed:
            while not (self._stopping or self._waiting or self._running):
                self._changed.wait()
            return not self._stopping

    def _admit(self, batch: Batch[Text]) -> None:
        """Lets jobs in, in the order in which they came, as far as there is room."""
        batch.sweep()
        read = 0
        while read < PREFILL_TOKENS and (job := self._next(len(batch.texts))) is not None:
            self._running.append(job)
            read += len(job.texts[0].unread)
            try:
                batch.add(job.texts)
            except Exception as error:
                job.fail(error)

    def _next(self, busy: int) -> Job | None:
        with self._changed:
            while self._waiting and self._waiting[0].cancelled:
                self._waiting.popleft()
            if not self._waiting:
                return None
            wanted = len(self._waiting[0].texts)
            if busy and busy + wanted > self._rows:
                return None
            return self._waiting.popleft()
