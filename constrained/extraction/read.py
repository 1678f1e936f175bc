"""Reading one document: whole, or in parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.decoding.shared_runner import RequestSteps
from constrained.errors import ConstrainedError, PromptTooLong
from constrained.extraction.completions import completions
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.long_documents import part_steps, plan_chunks
from constrained.extraction.plan import ExtractionPlan


def document_steps(
    plan: ExtractionPlan[Any], document: Document, settings: Mapping[str, Any]
) -> RequestSteps:
    """Reads one document; the result is an `Extraction`."""
    try:
        messages = plan.prompt(document.text)
        chunks = plan_chunks(plan, document.text, settings) if plan.long == "split" else []
        if len(chunks) > 1 or (chunks and plan.passes > 1):
            return (yield from part_steps(plan, document, chunks, settings))
        generator = plan.bound(plan.generator, document.text, document.id)
        questions = plan.questions(generator, document.text)
    except ConstrainedError as error:
        text = document.text if isinstance(document.text, str) else ""
        return Extraction[Any](document.id, text, error=error, attempts=0)
    ((outcome, attempts, last, first),) = yield from completions(
        plan, [(generator, messages)], settings, questions
    )
    if isinstance(outcome, PromptTooLong) and plan.long != "split":
        outcome.reword(action='pass long="split" to read it in parts, or use a model with a longer context')
    if isinstance(outcome, ConstrainedError):
        return Extraction[Any](document.id, document.text, error=outcome, attempts=attempts)
    return Extraction(
        document.id,
        document.text,
        outcome,
        attempts=attempts,
        first_pass=first,
        decisions={} if questions is None else questions.decisions,
        _requests=((generator, last),),
    )
