"""What the thread that owns a model does for requests: sequences that join its batch, and readings between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.decoding.shared_runner import RequestSteps, SharedRunner
from constrained.server.sequence_stream import SequenceDelta, SequenceStream

T = TypeVar("T")

DeltaCallback = Callable[[list[SequenceDelta]], None]
"""Receives the new deltas of a request; called in the scheduler's thread, and must not block."""


class QueuedRequest:
    """The sequences for one prompt of a request.

    Attributes:
        sequences: in the order of their indices.
        client: whose turn they take.

    Args:
        sequences: see above.
        send: receives their deltas.
        client: see above.
        streams: send each new delta; False: of each sequence the first one, and when it ends the rest, which is
            less work for the event loop.
    """

    def __init__(
        self,
        sequences: Sequence[SequenceStream],
        send: DeltaCallback,
        client: str = "",
        *,
        streams: bool = True,
    ) -> None:
        self.sequences = list(sequences)
        self.client = client
        self.cancelled = False
        self._send = send
        self._streams = streams
        self._begun: set[int] = set()  # indices of sequences whose first delta has been sent

    @property
    def finished(self) -> bool:
        """Whether all sequences are finished."""
        return all(text.finished for text in self.sequences)

    @property
    def unread(self) -> int:
        """Tokens of the prompt that have to be read."""
        return len(self.sequences[0].sequence.unread)

    def begin(self, batch: ContinuousBatch[SequenceStream], between: Callable[[], None]) -> None:
        """Adds the sequences to the batch; `between` is called between the pieces of a long prompt."""
        batch.add(self.sequences, between)

    def deliver(self) -> None:
        """Passes the new deltas to the callback."""
        ready = self.sequences
        if not self._streams:
            ready = [text for text in ready if text.finished or text.index not in self._begun]
        pieces = [piece for text in ready if (piece := text.pop_delta()) is not None]
        self._begun.update(piece.index for piece in pieces)
        if pieces and not self.cancelled:
            self._send(pieces)

    def fail(self, error: Exception) -> None:
        """Ends all unfinished sequences with an error."""
        for text in self.sequences:
            if not text.finished:
                text.fail(error)
        self.deliver()


class QueuedReading(Generic[T]):
    """Something that is read off the model at once, between two steps, such as a decision.

    Attributes:
        sequences: none.
        unread: tokens of the prompt.
        client: whose turn it takes.
        answer: what was read. Cancelling it cancels the job, if that has not begun.
        finished: it never stays in the batch.

    Args:
        read: reads it; called in the scheduler's thread.
        unread: see above.
        client: see above.
    """

    sequences: Sequence[SequenceStream] = ()
    finished = True

    def __init__(self, read: Callable[[], T], unread: int, client: str = "") -> None:
        self.unread = unread
        self.client = client
        self.answer: Future[T] = Future()
        self._read = read

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it."""
        return self.answer.cancelled()

    def begin(self, batch: ContinuousBatch[SequenceStream], between: Callable[[], None]) -> None:
        """Reads it at once; the batch is not changed."""
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_result(self._read())

    def deliver(self) -> None:
        """It has been delivered."""

    def fail(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended."""
        if not self.answer.done() and (self.answer.running() or self.answer.set_running_or_notify_cancel()):
            self.answer.set_exception(error)


class QueuedExtraction:
    """A text that an extractor reads, in a batch with those of other such requests.

    Attributes:
        sequences: none: its own are in that batch.
        unread: tokens of the prompt.
        client: whose turn it takes.
        cancelled: nobody waits for it any more.

    Args:
        steps: read it; their result is an `Extraction`.
        shared: that batch.
        send: receives the answer as one delta.
        unread: see above.
        client: see above.
    """

    sequences: Sequence[SequenceStream] = ()

    def __init__(
        self, steps: RequestSteps, shared: SharedRunner, send: DeltaCallback, unread: int, client: str = ""
    ) -> None:
        self.unread = unread
        self.client = client
        self.cancelled = False
        self.finished = False
        self._steps, self._shared, self._send = steps, shared, send
        self._result: Future[Any] | None = None

    def begin(self, batch: ContinuousBatch[SequenceStream], between: Callable[[], None]) -> None:
        """Joins the batch of extractions."""
        self._result = self._shared.begin(self._steps)

    def deliver(self) -> None:
        """Passes the value to the callback, once it is there."""
        if self.finished or self._result is None:
            return
        if self.cancelled:
            self.finished = True
            self._result.cancel()
        elif self._result.done():
            self._end(_answer(self._result))

    def fail(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended."""
        if not self.finished:
            if self._result is not None:
                self._result.cancel()
            self._end(SequenceDelta(0, error=error))

    def _end(self, delta: SequenceDelta) -> None:
        self.finished = True
        if not self.cancelled:
            self._send([delta])


def _answer(result: Future[Any]) -> SequenceDelta:
    """The delta of an extraction that has ended."""
    error = result.exception()
    if error is None:
        found = result.result()
        error = found.error
    if error is not None:
        return SequenceDelta(0, error=error if isinstance(error, Exception) else RuntimeError(str(error)))
    output = found.output
    finish = "stop" if output is None or output.cut is None else "length"
    return SequenceDelta(0, found.text, finish=finish, count=0 if output is None else output.stats.tokens)


Job = QueuedRequest | QueuedReading[Any] | QueuedExtraction
"""What waits for its turn."""
