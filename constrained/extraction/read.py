"""Reading one document: whole, or in parts."""

from __future__ import annotations

from collections.abc import Generator as Coroutine
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.decisions import Decision
from constrained.decoding.request_runner import BatchedRequest
from constrained.decoding.shared_runner import RequestSteps
from constrained.errors import ConstrainedError, PromptTooLong
from constrained.extraction.completions import completions
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.long_documents import part_steps, plan_chunks
from constrained.extraction.plan import ExtractionPlan

if TYPE_CHECKING:
    from constrained.decoding import Generator


def document_steps(
    plan: ExtractionPlan[Any], document: Document, settings: Mapping[str, Any]
) -> RequestSteps:
    """Reads one document; the result is an `Extraction`."""
    try:
        messages = plan.prompt(document.text, images=document.images)
        chunks = plan_chunks(plan, document.text, settings) if plan.long == "split" else []
        if len(chunks) > 1 or (chunks and plan.passes > 1):
            return (yield from part_steps(plan, document, chunks, settings))
        generator = plan.bound(plan.generator, document.text, document.id)
        lists = questions = None
        if not document.images:  # what is decided are values of the text
            lists = yield from list_steps(plan, generator, document.text, settings)
            if lists is None and plan.closed_members is not None:
                yield from plan.closed_members.weighing_steps()
                questions = plan.questions(generator, document.text)
    except ConstrainedError as error:
        text = document.text if isinstance(document.text, str) else ""
        return Extraction[Any](document.id, text, error=error, attempts=0)
    ((outcome, attempts, last, first),) = yield from completions(
        plan, [(generator, messages)], settings, questions, None if lists is None else lists.writer
    )
    if isinstance(outcome, PromptTooLong) and plan.long != "split":
        outcome.reword(action='pass long="split" to read it in parts, or use a model with a longer context')
    if isinstance(outcome, ConstrainedError):
        return Extraction[Any](document.id, document.text, error=outcome, attempts=attempts)
    decisions: Mapping[str, Decision] = {} if questions is None else questions.decisions
    if lists is not None and attempts == 1:
        decisions = lists.decisions
    return Extraction(
        document.id,
        document.text,
        outcome,
        attempts=attempts,
        first_pass=first,
        decisions=decisions,
        _requests=((generator, last),),
        _stated=() if questions is None else questions.stated,
    )


class ListsRead(NamedTuple):
    """A document whose lists of records were read: what writes its value, and what was decided in it."""

    writer: Generator[Any]
    decisions: Mapping[str, Decision]


def list_steps(
    plan: ExtractionPlan[Any], generator: Generator[Any], text: str, settings: Mapping[str, Any]
) -> Coroutine[list[BatchedRequest], None, ListsRead | None]:
    """Reads the lists of records of a document, and with them all of its value; returns None where the model writes it.

    Args:
        plan: how documents are read.
        generator: of the document.
        text: of the document.
        settings: of the call.
    """
    if plan.record_lists is None:
        return None
    found = yield from plan.record_lists.steps(text, settings)
    writer = None if found is None else found.writer(generator, settings)
    return None if found is None or writer is None else ListsRead(writer, found.decisions)
