"""Documents that are read in parts: how they are split, and how the values of the parts become one."""

from __future__ import annotations

import warnings
from collections.abc import Generator as Coroutine
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from constrained.constraint.json_text import read_exact, write_exact
from constrained.decoding import limits
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import (
    ConstrainedError,
    ModelError,
    PromptError,
    PromptTooLong,
    RejectedValue,
    UnsatisfiableConstraint,
)
from constrained.extraction.chunks import TextChunk, split_text
from constrained.extraction.completion_scores import ScoredRequest, output_fields
from constrained.extraction.completions import completions
from constrained.extraction.examples import accepts_text, json_separators
from constrained.extraction.extraction import (
    Document,
    Extraction,
    FailedPart,
    Part,
    part_spans,
    standard_text,
)
from constrained.extraction.values.exact_json import in_schema_order, resolve
from constrained.extraction.values.merge import MergedValue, merge_values

if TYPE_CHECKING:
    from constrained.decoding import Generator
    from constrained.extraction.plan import ExtractionPlan
    from constrained.extraction.values.fields import FieldProbability
    from constrained.extraction.values.grounding import SpanMatch

_T = TypeVar("_T")

_SMALLEST = 16
"""Tokens that a chunk must be able to have."""


def plan_chunks(plan: ExtractionPlan[Any], text: str, settings: Mapping[str, Any]) -> list[TextChunk]:
    """The parts in which a text is read; one if it is short enough.

    Raises:
        PromptTooLong: the prompt without a text leaves no room for one.
    """
    whole = [TextChunk(0, len(text))]
    model = plan.generator.model
    size = plan.chunk_tokens
    if model.context is not None:
        prompt = len(model.encode(plan.prompt(".", plan.part_generator.constraint)))
        room = model.context - prompt
        reserved = settings.get("max_tokens") or min(limits.DEFAULT_TOKENS, room // 3)
        if plan.first_pass is not None:
            reserved += plan.first_pass.max_tokens(reserved, prompt)
        if room - reserved < _SMALLEST:
            raise PromptTooLong(
                f"the prompt without a text has {prompt} tokens and the completion up to {reserved}: "
                f"the model reads {model.context} in all",
                action="pass a smaller max_tokens, shorter instructions and fewer examples, or a model with a longer context",
            )
        size = min(size or room, room - reserved)
    if size is None:
        return whole

    def count_tokens(part: str) -> int:
        try:
            return len(model.encode(part, chat=False))
        except PromptTooLong:  # more than `context`, and so more than any chunk has
            return model.context or size
        except PromptError:  # nothing but characters that the tokenizer drops
            return 0

    if count_tokens(text) <= size:
        return whole
    overlap = size // 8 if plan.overlap_tokens is None else plan.overlap_tokens
    return split_text(text, count_tokens, size, min(overlap, size // 2))


def part_steps(
    plan: ExtractionPlan[Any], document: Document, chunks: Sequence[TextChunk], settings: Mapping[str, Any]
) -> Coroutine[list[BatchedRequest], None, Extraction[Any]]:
    """Reads a document in parts; the result is an `Extraction`."""
    generator = plan.generator if len(chunks) == 1 else plan.part_generator
    parts: list[_ReadPart] = []
    failed: list[FailedPart] = []
    attempts = 0
    merged = MergedValue(None)
    for number in range(plan.passes):
        if number:
            missing = (
                _missing(merged.value, generator.constraint.local_schema)
                if generator.constraint.is_json
                else ()
            )
            if not missing:
                break
            generator = plan.member_generator(tuple(missing))
        read, requests, failure = [], [], None
        for chunk in chunks:
            text = document.text[chunk.start : chunk.end]
            if not text.strip():
                continue
            try:
                bound = plan.bound(generator, text, document.id)
            except UnsatisfiableConstraint as error:  # a number is wanted, and this part has none
                failure = error
                continue
            read.append(chunk)
            requests.append((bound, plan.prompt(text, generator.constraint)))
        if failure is not None and not parts and not requests:
            return Extraction(document.id, document.text, error=failure, attempts=attempts)
        outcomes = yield from completions(plan, requests, settings)
        attempts += sum(one.attempts for one in outcomes)
        for chunk, (bound, _), (outcome, _, prompt, _) in zip(read, requests, outcomes, strict=True):
            if isinstance(outcome, ConstrainedError):
                outcome.reword(summary=f"characters {chunk.start} to {chunk.end}: {outcome.summary}")
                failed.append(FailedPart(chunk.start, chunk.end, outcome))
                continue
            part = Part(chunk.start, chunk.end, outcome)
            parts.append(_ReadPart(document.text, part, (bound, prompt)))
        if not parts:
            break
        constraint = plan.generator.constraint
        merged = merge_values(parts, constraint.local_schema if constraint.is_json else None)
    result = _result(plan, document, parts, merged, attempts) if parts else None
    fatal: ConstrainedError | None = next(
        (one.error for one in failed if isinstance(one.error, ModelError)), None
    )
    if fatal is None and failed and (result is None or result.error is not None):
        fatal = failed[0].error  # what failed is why there is no value
    if fatal is not None:
        found = Extraction[Any](document.id, document.text, error=fatal, attempts=attempts)
        return replace(found, parts=tuple(one.part for one in parts), failed=tuple(failed))
    assert result is not None
    for one in failed:
        name = "" if document.id is None else f"document {document.id!r}: "
        warnings.warn(f"{name}nothing is taken from {one.error.summary}", stacklevel=2)
    return replace(result, failed=tuple(failed))


class _ReadPart:
    """A part that was read, as `merge_values` sees it: places and probabilities are computed if they matter."""

    def __init__(self, document: str, part: Part, request: ScoredRequest) -> None:
        self.part = part
        self.request = request
        self.extent = (part.start, part.end)
        self._document = document

    @cached_property
    def value(self) -> Any:
        output = self.part.output
        return read_exact(standard_text(output)) if self.request[0].constraint.is_json else output.text

    @cached_property
    def _spans(self) -> dict[str, SpanMatch]:
        return part_spans(self._document, self.part)

    @cached_property
    def _fields(self) -> dict[str, FieldProbability]:
        return output_fields(self.request, self.part.output)

    def places(self, pointer: str) -> list[tuple[int, int]]:
        found = _at(self._spans, pointer)
        return [(one.start, one.end) for one in found if one.start is not None and one.end is not None]

    def confidence(self, pointer: str) -> float:
        return sum(one.logprob for one in _at(self._fields, pointer))


def _at(by_pointer: Mapping[str, _T], pointer: str) -> list[_T]:
    """What belongs to the scalars of the value at a pointer."""
    below = pointer + "/"
    return [one for place, one in by_pointer.items() if place == pointer or place.startswith(below)]


def _missing(value: Any, schema: Any) -> list[str]:
    """Members of the top-level object that have no value."""
    properties = resolve(schema, schema).get("properties") if isinstance(value, Mapping) else None
    return [name for name in properties or () if value.get(name) in (None, "", [], {})]


def _result(
    plan: ExtractionPlan[Any], document: Document, read: list[_ReadPart], merged: MergedValue, attempts: int
) -> Extraction[Any]:
    generator = plan.generator
    constraint, common = generator.constraint, (document.id, document.text)
    parts = tuple(one.part for one in read)
    text = merged.value
    try:
        if constraint.is_json:
            ordered = in_schema_order(merged.value, constraint.local_schema, constraint.local_schema)
            ascii_only = bool(constraint.json_options.ensure_ascii)
            forms = [
                write_exact(ordered, separators, ensure_ascii=ascii_only)
                for separators in json_separators(constraint)
            ]
            text = next((form for form in forms if accepts_text(generator.automaton, form)), forms[0])
            _check_merged(generator, text)
        value = constraint.parse(text)
    except ConstrainedError as error:
        return Extraction(*common, error=error, attempts=attempts, parts=parts)
    return Extraction(
        *common,
        attempts=attempts,
        parts=parts,
        origins=merged.origins,
        merged=(text, value),
        _requests=tuple(one.request for one in read),
    )


def _check_merged(generator: Generator[Any], text: str) -> None:
    if not accepts_text(generator.automaton, text):
        raise RejectedValue(
            f"the parts of the document do not give a value of {generator.constraint.render()}",
            generator.constraint.problems(text),
            action="make members optional that a document may lack, pass passes=2, or longer chunks",
            text=text,
        )
