"""Documents that are read in parts: how they are split, and how the values of the parts become one."""

from __future__ import annotations

from collections.abc import Generator as Coroutine
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from constrained.decoding import limits
from constrained.decoding.output import Output
from constrained.decoding.request_batch import BatchedRequest
from constrained.errors import ConstrainedError, PromptError, PromptTooLong, RejectedValue
from constrained.extraction.chunks import TextChunk, split_text
from constrained.extraction.exact_json import in_schema_order, read_exact, resolve, write_exact
from constrained.extraction.examples import accepts_text, json_separators
from constrained.extraction.extraction import Document, Extraction, Part
from constrained.extraction.merge import MergedValue, merge_values
from constrained.extraction.steps import completions

if TYPE_CHECKING:
    from constrained.decoding import Generator
    from constrained.extraction.extractor import Extractor

_SMALLEST = 16
"""Tokens that a chunk must be able to have."""


def plan_chunks(extractor: Extractor[Any], text: str, settings: Mapping[str, Any]) -> list[TextChunk]:
    """The parts in which a text is read; one if it is short enough.

    Raises:
        PromptTooLong: the prompt without a text leaves no room for one.
    """
    whole = [TextChunk(0, len(text))]
    model = extractor.generator.model
    size = extractor.chunk_tokens
    if model.context is not None:
        prompt = len(model.encode(extractor.prompt(".", extractor.part_generator.constraint)))
        room = model.context - prompt
        reserved = settings.get("max_tokens") or min(limits.DEFAULT_TOKENS, room // 3)
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
        except PromptError:  # nothing but characters that the tokenizer drops
            return 0

    if count_tokens(text) <= size:
        return whole
    overlap = size // 8 if extractor.overlap_tokens is None else extractor.overlap_tokens
    return split_text(text, count_tokens, size, min(overlap, size // 2))


def part_steps(
    extractor: Extractor[Any], document: Document, chunks: Sequence[TextChunk], settings: Mapping[str, Any]
) -> Coroutine[list[BatchedRequest], None, Extraction[Any]]:
    """Reads a document in parts; the result is an `Extraction`."""
    generator = extractor.generator if len(chunks) == 1 else extractor.part_generator
    parts: list[Part] = []
    attempts = 0
    merged = MergedValue(None)
    for number in range(extractor.passes):
        if number:
            missing = (
                _missing(merged.value, generator.constraint.schema) if generator.constraint.is_json else ()
            )
            if not missing:
                break
            generator = extractor.member_generator(tuple(missing))
        texts = [document.text[chunk.start : chunk.end] for chunk in chunks]
        prompts = [extractor.prompt(text, generator.constraint) for text in texts if text.strip()]
        bound = extractor.bound(generator, document.text)
        outcomes = yield from completions(extractor, bound, prompts, settings)
        attempts += sum(one.attempts for one in outcomes)
        read = [chunk for chunk, text in zip(chunks, texts, strict=True) if text.strip()]
        for chunk, (outcome, *_) in zip(read, outcomes, strict=True):
            if isinstance(outcome, ConstrainedError):
                outcome.reword(summary=f"characters {chunk.start} to {chunk.end}: {outcome.summary}")
                return Extraction(
                    document.id, document.text, error=outcome, attempts=attempts, parts=tuple(parts)
                )
            parts.append(Part(chunk.start, chunk.end, outcome))
        merged = _merged([part.output for part in parts], is_json=generator.constraint.is_json)
    return _result(extractor, document, parts, merged, attempts)


def _merged(outputs: Sequence[Output[Any]], *, is_json: bool) -> MergedValue:
    confidences = [output.logprob / max(1, len(output.tokens)) for output in outputs]
    values = [read_exact(output.text) if is_json else output.text for output in outputs]
    return merge_values(values, confidences)


def _missing(value: Any, schema: Any) -> list[str]:
    """Members of the top-level object that have no value."""
    properties = resolve(schema, schema).get("properties") if isinstance(value, Mapping) else None
    return [name for name in properties or () if value.get(name) in (None, "", [], {})]


def _result(
    extractor: Extractor[Any], document: Document, parts: list[Part], merged: MergedValue, attempts: int
) -> Extraction[Any]:
    generator = extractor.generator
    constraint, common = generator.constraint, (document.id, document.text)
    text = merged.value
    try:
        if constraint.is_json:
            ordered = in_schema_order(merged.value, constraint.schema, constraint.schema)
            ascii_only = bool(dict(getattr(constraint, "options", {})).get("ensure_ascii"))
            forms = [
                write_exact(ordered, separators, ensure_ascii=ascii_only)
                for separators in json_separators(constraint)
            ]
            text = next((form for form in forms if accepts_text(generator.automaton, form)), forms[0])
            _check_merged(generator, text)
        value = constraint.parse(text)
    except ConstrainedError as error:
        return Extraction(*common, error=error, attempts=attempts, parts=tuple(parts))
    return Extraction(
        *common,
        attempts=attempts,
        parts=tuple(parts),
        origins=merged.origins,
        merged=(text, value),
    )


def _check_merged(generator: Generator[Any], text: str) -> None:
    if not accepts_text(generator.automaton, text):
        raise RejectedValue(
            f"the parts of the document do not give a value of {generator.constraint.render()}",
            generator.constraint.problems(text),
            action="make members optional that a document may lack, pass passes=2, or longer chunks",
            text=text,
        )
