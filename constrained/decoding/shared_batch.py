"""`SharedBatch`: calls of several threads at one model share its forward passes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from constrained.decoding.generator import Generator
from constrained.decoding.output import Output
from constrained.decoding.request import DecodingRequest
from constrained.decoding.request_batch import BatchedRequest, RequestBatch
from constrained.models import LanguageModel

MAX_ROWS = 64
"""Most sequences in the batch; further calls wait for a place."""

_batches: WeakKeyDictionary[LanguageModel, SharedBatch] = WeakKeyDictionary()
_guard = threading.Lock()


class SharedBatch:
    """A `RequestBatch` that the threads with requests in it drive in turn: there is no thread of its own.

    Attributes:
        steps: steps so far.
    """

    def __init__(self, model: LanguageModel) -> None:
        """An empty batch."""
        self.steps = 0
        self._batch = RequestBatch(model, max_rows=MAX_ROWS)
        self._joining: deque[BatchedRequest] = deque()
        self._changed = threading.Condition()
        self._driven = False

    @classmethod
    def of(cls, model: LanguageModel) -> SharedBatch:
        """The batch that all calls at a model share."""
        with _guard:
            if model not in _batches:
                _batches[model] = cls(model)
            return _batches[model]

    def run(
        self, requests: Sequence[tuple[Generator[Any], DecodingRequest]], deadline: float | None = None
    ) -> list[Output[Any]]:
        """Decodes requests; blocks until all have ended.

        Args:
            requests: what to decode, each with the generator that made it, without speculation.
            deadline: as `time.monotonic` has it; None: no limit.

        Raises:
            TimeoutError: the deadline has passed.
            ConstrainedError: a request failed.
        """
        members = [BatchedRequest(generator, request) for generator, request in requests]
        with self._changed:
            self._joining += members
            try:
                while any(member.outcome is None for member in members):
                    left = None if deadline is None else deadline - time.monotonic()
                    if left is not None and left <= 0:
                        raise TimeoutError("the model took longer than the timeout of this call")
                    if self._driven:
                        self._changed.wait(left)
                    else:
                        self._drive()
            finally:
                for member in members:
                    member.cancelled = member.outcome is None
                self._changed.notify_all()
        outputs = []
        for member in members:
            if isinstance(member.outcome, Exception):
                raise member.outcome
            assert member.outcome is not None
            outputs.append(member.outcome)
        return outputs

    def _drive(self) -> None:
        """One step for all, without the lock."""
        self._driven = True
        self._changed.release()
        try:
            while self._joining and (
                self._joining[0].cancelled or self._batch.has_room(self._joining[0].tokens)
            ):
                waiting = self._joining.popleft()
                if not waiting.cancelled:
                    self._batch.add(waiting)
            ended = self._batch.step()
            self.steps += 1
        finally:
            self._changed.acquire()
            self._driven = False
        if ended:
            self._changed.notify_all()
