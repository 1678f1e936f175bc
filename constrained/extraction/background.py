"""Concurrent extractions of one model share a batch, in a thread that lives while there is work.

The thread ends when its last document has ended, and the next document starts another one: there is nothing to shut down,
and an interpreter that exits waits for the documents that have begun, no longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.many import BATCH_SIZE, check_settings, new_batch
from constrained.extraction.pipeline import Pipeline
from constrained.extraction.read import document_steps

if TYPE_CHECKING:
    from constrained.extraction.plan import ExtractionPlan
    from constrained.models import LanguageModel


class BackgroundBatch:
    """The batch of one model. Safe to share between threads."""

    def __init__(self) -> None:
        """A batch without documents; its thread starts with the first one."""
        self._lock = threading.Lock()
        self._waiting: deque[
            tuple[Future[Extraction[Any]], ExtractionPlan[Any], Document, Mapping[str, Any]]
        ] = deque()
        self._thread: threading.Thread | None = None

    def submit(
        self, plan: ExtractionPlan[Any], document: Document, settings: Mapping[str, Any]
    ) -> Future[Extraction[Any]]:
        """Queues a document; cancelling its future frees its rows before the next step."""
        future: Future[Extraction[Any]] = Future()
        with self._lock:
            self._waiting.append((future, plan, document, settings))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, args=(plan,), name="constrained-extraction")
                self._thread.start()
        return future

    def _run(self, first: ExtractionPlan[Any]) -> None:
        pipeline: Pipeline[Future[Extraction[Any]]] = Pipeline(new_batch(first, BATCH_SIZE, None))
        running: list[Future[Extraction[Any]]] = []
        while True:
            with self._lock:
                if not self._waiting and not running:
                    self._thread = None
                    return
                begun: list[
                    tuple[Future[Extraction[Any]], ExtractionPlan[Any], Document, Mapping[str, Any]]
                ] = []
                while self._waiting and len(begun) + len(running) < BATCH_SIZE:
                    begun.append(self._waiting.popleft())
            try:
                for future, plan, document, settings in begun:
                    if not future.cancelled():
                        running.append(future)
                        pipeline.begin(future, document_steps(plan, document, settings))
                for future in running:
                    if future.cancelled():
                        pipeline.cancel(future)
                for future, result in pipeline.step():
                    with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                        future.set_result(result)
            except BaseException as error:  # none of the documents can go on
                pipeline.clear()
                for future in [*running, *(one[0] for one in begun)]:
                    with contextlib.suppress(InvalidStateError):
                        future.set_exception(error)
            running = [future for future in running if not future.done()]


_batches: WeakKeyDictionary[LanguageModel, dict[bool, BackgroundBatch]] = WeakKeyDictionary()
_lock = threading.Lock()


def background_batch(plan: ExtractionPlan[Any]) -> BackgroundBatch:
    """The batch that a plan shares with those of the same model, apart from those that speculate differently."""
    generator = plan.generator
    with _lock:
        batches = _batches.setdefault(generator.model, {})
        return batches.setdefault(generator._drafting is None, BackgroundBatch())


async def extract_in_background(
    plan: ExtractionPlan[Any], document: Document, settings: Mapping[str, Any]
) -> Extraction[Any]:
    """Reads a document in the shared batch of its model.

    Raises:
        InvalidArgument, DoesNotFit, PromptTooLong: a setting is wrong for every document.
    """
    check_settings(plan, settings)
    return await asyncio.wrap_future(background_batch(plan).submit(plan, document, settings))
