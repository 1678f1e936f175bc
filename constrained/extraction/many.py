"""Many documents in one continuous batch, a bounded number of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sized
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

from constrained.decoding import limits
from constrained.decoding.request_batch import request_runner
from constrained.decoding.request_runner import RequestRunner
from constrained.decoding.shared_runner import BackgroundRunner, RequestSteps, SharedRunner
from constrained.errors import ConstrainedError, InvalidArgument, ModelError
from constrained.extraction.documents import iterate_documents, to_document
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.progress import progress_bar
from constrained.extraction.read import document_steps

if TYPE_CHECKING:
    from constrained.extraction.plan import ExtractionPlan

BATCH_SIZE = 32
"""Default of `batch_size`."""

_MODEL_FAILURES = 32
"""So many documents in a row that the model itself fails at end the run: what breaks a model, such as a fault of its device,
mostly lasts."""

_WINDOW = 4
"""With ``ordered=True``: at most this many batches of documents between the next one to yield and the last one read."""


def extract_one(
    plan: ExtractionPlan[Any], document: Document, settings: Mapping[str, Any]
) -> Extraction[Any]:
    """Reads one document; its parts run side by side if it has several."""
    found: Extraction[Any] = finished(plan, document_steps(plan, document, settings))
    return found


def finished(plan: ExtractionPlan[Any], steps: RequestSteps) -> Any:
    """The result of steps whose requests run side by side, by a runner of their own."""
    shared = SharedRunner(_new_runner(plan, BATCH_SIZE, None))
    future = shared.begin(steps)
    try:
        while not future.done():
            shared.step()
    finally:
        shared.clear()
    return future.result()


async def extract_in_background(
    plan: ExtractionPlan[Any], document: Document, settings: Mapping[str, Any]
) -> Extraction[Any]:
    """Reads one document in a batch of all calls at its model, in a thread that lives while there is work.

    Raises:
        InvalidArgument, DoesNotFit, PromptTooLong: a setting is wrong for every document.
    """
    _check_settings(plan, settings)
    generator, steps = plan.generator, document_steps(plan, document, settings)
    runner = BackgroundRunner.of(generator)
    return await asyncio.wrap_future(runner.submit(generator, steps, closes=plan.on_limit == "close"))


def extract_documents(
    plan: ExtractionPlan[Any],
    documents: Iterable[Any],
    *,
    batch_size: int = BATCH_SIZE,
    max_batch_tokens: int | None = None,
    errors: Literal["collect", "raise"] = "collect",
    ordered: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Iterator[Extraction[Any]]:
    """Reads documents as they come; see `extract_many`. All arguments are checked before this function returns."""
    if errors not in ("collect", "raise"):
        raise InvalidArgument(f"errors is {errors!r}", action='pass "collect" or "raise"')
    items = iterate_documents(documents)
    shared = SharedRunner(_new_runner(plan, batch_size, max_batch_tokens))
    _check_settings(plan, settings)
    total = len(documents) if isinstance(documents, Sized) else None
    found = _results(plan, items, shared, settings, window=_WINDOW * batch_size if ordered else None)
    return _reported(found, total, errors=errors, progress=progress)


def _new_runner(plan: ExtractionPlan[Any], batch_size: int, max_batch_tokens: int | None) -> RequestRunner:
    """A runner for the requests of a plan.

    Raises:
        InvalidArgument: a size is not a whole number >= 1; or the model is in an engine that cannot sample like this.
    """
    for name, value in (("batch_size", batch_size), ("max_batch_tokens", max_batch_tokens)):
        if value is not None and not limits.nonnegative_int(name, value):
            raise InvalidArgument(f"{name} is {value!r}", action="pass a whole number >= 1")
    return request_runner(plan.generator, batch_size, max_batch_tokens, closes=plan.on_limit == "close")


def _check_settings(plan: ExtractionPlan[Any], settings: Mapping[str, Any]) -> None:
    """Refuses settings that no document could be read with.

    Raises:
        InvalidArgument: a setting does not exist, or is out of range.
        DoesNotFit: the shortest completion is longer than `max_tokens`.
        PromptTooLong: it is longer than the model's context.
    """
    generator = plan.generator
    shape = dict(settings)
    max_tokens, seed = shape.pop("max_tokens", None), shape.pop("seed", None)
    limits.check_names(shape)
    limits.make_noise(seed, 0, greedy=generator.sampler.warper(**shape).greedy)
    limits.token_limit(generator.model, generator.automaton, 1, max_tokens)


def _results(
    plan: ExtractionPlan[Any],
    items: Iterator[Any],
    shared: SharedRunner,
    settings: Mapping[str, Any],
    *,
    window: int | None,
) -> Iterator[Extraction[Any]]:
    """Results as they end; with a `window`, in the order of the documents."""
    numbers: dict[Future[Any], int] = {}  # of the documents that are read
    held: dict[int, Extraction[Any]] = {}  # ended before their turn
    read = yielded = 0
    more, failure = True, None
    try:
        while more or len(shared):
            while more and shared.wants_more and (window is None or read - yielded < window):
                try:
                    item = next(items)
                except StopIteration:
                    more = False
                    break
                except Exception as error:  # what was begun is finished first
                    more, failure = False, error
                    break
                try:
                    document = to_document(item, read)
                except ConstrainedError as error:
                    held[read] = Extraction(read, "", error=error, attempts=0)
                else:
                    numbers[shared.begin(document_steps(plan, document, settings))] = read
                read += 1
            held.update((numbers.pop(future), future.result()) for future in shared.step())
            while held and (window is None or yielded in held):
                yield held.pop(next(iter(held)) if window is None else yielded)
                yielded += 1
        if failure is not None:
            raise failure
    finally:
        shared.clear()


def _reported(
    results: Iterator[Extraction[Any]], total: int | None, *, errors: str, progress: bool
) -> Iterator[Extraction[Any]]:
    failures = 0
    with progress_bar(total, shown=progress) as count:
        for result in results:
            count(result.error is not None)
            failures = failures + 1 if isinstance(result.error, ModelError) else 0
            if errors == "raise" and result.error is not None:
                name = f"document {result.id!r}: "
                if not result.error.summary.startswith(name[:-2]):
                    result.error.reword(summary=name + result.error.summary)
                raise result.error
            yield result
            if failures == _MODEL_FAILURES:
                assert result.error is not None
                raise ModelError(
                    f"{failures} documents in a row failed; the last one, {result.id!r}: {result.error.summary}",
                    action="see __cause__; --resume --retry-errors reads the documents again that failed",
                ) from result.error
