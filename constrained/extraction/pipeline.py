"""Documents on their way through a batch: which requests each of them still waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable
from typing import Any, Generic, TypeVar

from constrained.decoding.engine_model import Requests
from constrained.decoding.request_batch import BatchedRequest

DocumentSteps = Generator[list[BatchedRequest], None, Any]
"""The work on one document: yields requests that may run side by side, and goes on when all of them have outcomes; its
return value is the result."""

KeyT = TypeVar("KeyT", bound=Hashable)


class Pipeline(Generic[KeyT]):
    """Runs the steps of several documents in one `RequestBatch`. For one thread."""

    def __init__(self, batch: Requests) -> None:
        """A pipeline without documents.

        Args:
            batch: decodes the requests.
        """
        self._batch = batch
        self._queue: deque[BatchedRequest] = deque()
        self._owners: dict[int, KeyT] = {}  # by id of the request
        self._steps: dict[KeyT, DocumentSteps] = {}
        self._open: dict[KeyT, list[BatchedRequest]] = {}
        self._results: list[tuple[KeyT, Any]] = []

    def __len__(self) -> int:
        """Documents that have begun and not ended."""
        return len(self._steps)

    @property
    def wants_more(self) -> bool:
        """Whether there is a row for another document, beyond the requests that wait for theirs."""
        return len(self._queue) + len(self._batch) < self._batch.max_rows

    def begin(self, key: KeyT, steps: DocumentSteps) -> None:
        """Begins a document.

        Args:
            key: identifies it; unique among those that have not ended.
            steps: its work.
        """
        self._steps[key] = steps
        self._resume(key)

    def cancel(self, key: KeyT) -> None:
        """Drops a document; its rows are freed before the next step."""
        steps = self._steps.pop(key, None)
        if steps is not None:
            steps.close()
        for request in self._open.pop(key, ()):
            request.cancelled = True
            self._owners.pop(id(request), None)
        self._queue = deque(request for request in self._queue if not request.cancelled)

    def step(self) -> list[tuple[KeyT, Any]]:
        """One step of the batch.

        Returns:
            The documents that ended, each with the result of its steps.
        """
        while self._queue and self._batch.has_room(self._queue[0].tokens):
            self._batch.add(self._queue.popleft())
        for request in self._batch.step():
            key = self._owners.pop(id(request))
            waiting = self._open[key]
            waiting.remove(request)
            if not waiting:
                self._resume(key)
        results, self._results = self._results, []
        return results

    def clear(self) -> None:
        """Drops all documents, and the KV cache."""
        for steps in self._steps.values():
            steps.close()
        self._batch.clear()
        for held in (self._queue, self._owners, self._steps, self._open, self._results):
            held.clear()

    def _resume(self, key: KeyT) -> None:
        """Lets a document go on until it waits for requests or ends."""
        self._open.pop(key, None)
        try:
            requests = next(self._steps[key])
            while not requests:
                requests = next(self._steps[key])
        except StopIteration as ended:
            del self._steps[key]
            self._results.append((key, ended.value))
            return
        self._open[key] = list(requests)
        for request in requests:
            self._owners[id(request)] = key
        self._queue.extend(requests)
