"""What the thread that owns a model does for requests: sequences that join its batch, and steps beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any

from constrained.constraint import Constraint
from constrained.decoding.continuous_batch import ContinuousBatch
from constrained.decoding.shared_runner import RequestSteps, SharedJob, SharedRunner
from constrained.server.sequence_stream import SequenceDelta, SequenceStream

DeltaCallback = Callable[[list[SequenceDelta]], None]
"""Receives the new deltas of a request; called in the scheduler's thread, and must not block."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request whose sequences can be decoded.

    Attributes:
        groups: for each prompt its sequences.
        prompt_tokens: total number of prompt tokens.
        constraint: satisfied by all completions.
        has_captures: whether its answers have captures.
        extraction: what reads its text, which then has no sequences of its own; None: they are decoded.
    """

    groups: list[list[SequenceStream]]
    prompt_tokens: int
    constraint: Constraint
    has_captures: bool = False
    extraction: RequestSteps | None = None

    @property
    def count(self) -> int:
        """Number of completions."""
        return sum(map(len, self.groups)) if self.extraction is None else 1


class QueuedRequest:
    """The sequences for one prompt of a request.

    Args:
        sequences: in the order of their indices.
        send: receives their deltas.
        client: whose turn they take.
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

    def cancel(self) -> None:
        """Nobody waits for it any more: its callback is not called again."""
        self.cancelled = True
        for text in self.sequences:
            text.cancelled = True

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


class QueuedSteps:
    """What is read off the model in steps of its own, beside the batch: an extraction, a decision.

    Attributes:
        sequences: none in the batch.
        answer: what the steps return. Cancelling it cancels the job.

    Args:
        steps: read it.
        shared: runs them with those of other jobs.
        unread: tokens of the prompt.
        client: whose turn it takes.
    """

    sequences: Sequence[SequenceStream] = ()

    def __init__(self, steps: RequestSteps, shared: SharedRunner, unread: int, client: str = "") -> None:
        self.unread = unread
        self.client = client
        self._job, self._shared = SharedJob(steps), shared
        self.answer = self._job.future

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.answer.cancelled()

    @property
    def finished(self) -> bool:
        """Whether there is an answer, or nobody waits for it."""
        return self.answer.done()

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self.answer.cancel()

    def begin(self, batch: ContinuousBatch[SequenceStream], between: Callable[[], None]) -> None:
        """Joins the other jobs with steps."""
        self._shared.begin(self._job)

    def deliver(self) -> None:
        """The answer has been delivered."""

    def fail(self, error: Exception) -> None:
        """Ends it with an error, unless it has ended."""
        with contextlib.suppress(InvalidStateError):
            self.answer.set_exception(error)


def extraction_delta(answer: Future[Any]) -> SequenceDelta:
    """The one delta of an extraction that has ended."""
    error = answer.exception()
    if error is None:
        found = answer.result()
        error = found.error
    if error is not None:
        return SequenceDelta(0, error=error if isinstance(error, Exception) else RuntimeError(str(error)))
    output = found.output
    finish = "stop" if output is None or output.cut is None else "length"
    return SequenceDelta(0, found.text, finish=finish, count=0 if output is None else output.stats.tokens)


Job = QueuedRequest | QueuedSteps
"""What waits for its turn."""
