"""One request from its body to the end of its response."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from constrained.server.admission import Admission
from constrained.server.errors import ApiError, stopping_error
from constrained.server.jobs import Job
from constrained.server.metrics import Metrics
from constrained.server.sequence_stream import SequenceDelta, SequenceStream
from constrained.server.served_model import ServedModel
from constrained.server.settings import ServerSettings

_Result = TypeVar("_Result")

CLIENT_GONE = 499
"""Status that the log and the metrics give a request whose client disconnected."""


async def within(seconds: float, work: Awaitable[_Result]) -> _Result:
    """Awaits what a request needs.

    Raises:
        ApiError: 504, it takes longer; 503, the server stops and does not wait for it any more.
    """
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.CancelledError:
        raise stopping_error() from None
    except (TimeoutError, asyncio.TimeoutError):
        raise _timeout_error(seconds) from None


def _timeout_error(seconds: float) -> ApiError:
    return ApiError(504, f"the request took more than {seconds:g} seconds", code="request_timeout")


class RequestLifecycle:
    """A request from its body to the end of its response.

    Attributes:
        began: as `time.perf_counter` has it.
        client: whose limit it counts towards.
        deltas: queue of what the scheduler sends.
        captures: whether its answer has captures.
        jobs: its sequences, in the order of its prompts.
        model: that it names; None before the body is read.
    """

    def __init__(
        self,
        endpoint: str,
        client: str,
        *,
        settings: ServerSettings,
        admission: Admission,
        metrics: Metrics,
    ) -> None:
        self.began = time.perf_counter()
        self.captures = False
        self.jobs: Sequence[Job] = ()
        self.model: ServedModel | None = None
        self.deltas: asyncio.Queue[list[SequenceDelta]] = asyncio.Queue()
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._timer = self._loop.call_later(settings.request_seconds, self._expire)
        self.client = client
        self._seconds = settings.request_seconds
        self._metrics = metrics
        self._admission = admission
        admission.enter(client)

    def send(self, pieces: list[SequenceDelta]) -> None:
        """Queues deltas; called by the scheduler thread."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self.deltas.put_nowait, pieces)

    def text(self, index: int) -> SequenceStream:
        """Its sequence with this index."""
        return next(text for job in self.jobs for text in job.sequences if text.index == index)

    def _expire(self) -> None:
        self.deltas.put_nowait([SequenceDelta(0, error=_timeout_error(self._seconds))])

    def close(self, status: int) -> None:
        """Cancels unfinished jobs and records metrics; later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        self._admission.leave(self.client)
        for job in self.jobs:
            if not job.finished and self.model is not None:
                self.model.scheduler.cancel(job)
        seconds = time.perf_counter() - self.began
        self._metrics.requests.labels(self._endpoint, str(status)).inc()
        if status == CLIENT_GONE:
            self._metrics.disconnects.inc()
        elif status == 200 and self.model is not None:
            self._metrics.seconds.labels(self.model.name).observe(seconds)
            self._admission.answered(seconds)
