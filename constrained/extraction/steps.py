"""The work on one document: its prompts, the retries of refused values, and the result."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.decoding.cut import OnLimit, truncation_first
from constrained.decoding.output import Output
from constrained.decoding.request_batch import BatchedRequest
from constrained.errors import ConstrainedError, PromptTooLong, RejectedValue
from constrained.extraction.extraction import Document, Extraction
from constrained.extraction.pipeline import DocumentSteps
from constrained.extraction.prompt import Messages, retry_prompt

if TYPE_CHECKING:
    from constrained.decoding import Generator as Decoder
    from constrained.extraction.extractor import Extractor

RETRY_TEMPERATURE = 0.7
"""Temperature of a retry where decoding is greedy: without one a model would often repeat what was refused."""

Outcome = Output[Any] | ConstrainedError


class Completion(NamedTuple):
    """What became of a prompt: the last outcome, the number of attempts, and the prompt of the last."""

    outcome: Outcome
    attempts: int
    prompt: Messages


def document_steps(
    extractor: Extractor[Any], document: Document, settings: Mapping[str, Any]
) -> DocumentSteps:
    """Reads one document; the result is an `Extraction`."""
    from constrained.extraction.long_documents import part_steps, plan_chunks

    try:
        messages = extractor.prompt(document.text)
        chunks = plan_chunks(extractor, document.text, settings) if extractor.long == "split" else []
        if len(chunks) > 1 or (chunks and extractor.passes > 1):
            return (yield from part_steps(extractor, document, chunks, settings))
        generator = extractor.bound(extractor.generator, document.text)
    except ConstrainedError as error:
        text = document.text if isinstance(document.text, str) else ""
        return Extraction[Any](document.id, text, error=error, attempts=0)
    ((outcome, attempts, last),) = yield from completions(extractor, [(generator, messages)], settings)
    if isinstance(outcome, PromptTooLong) and extractor.long != "split":
        outcome.reword(action='pass long="split" to read it in parts, or use a model with a longer context')
    if isinstance(outcome, ConstrainedError):
        return Extraction[Any](document.id, document.text, error=outcome, attempts=attempts)
    return Extraction(document.id, document.text, outcome, attempts=attempts, _requests=((generator, last),))


def completions(
    extractor: Extractor[Any],
    prompts: Sequence[tuple[Decoder[Any], Messages]],
    settings: Mapping[str, Any],
) -> Generator[list[BatchedRequest], None, list[Completion]]:
    """Completes prompts side by side, each by its generator.

    What code of the type refuses is generated again, `extractor.retries` times. A retry shows the model the refused completion and the reason, and draws with other random numbers (the number of the
    attempt is the request's `sequence`); greedy decoding draws at `RETRY_TEMPERATURE`.

    Returns:
        For each prompt, its `Completion`.
    """
    outcomes: list[Completion] = []
    current = [list(prompt) for _, prompt in prompts]
    for attempt in range(extractor.retries + 1):
        members: list[tuple[int, BatchedRequest]] = []
        wanted = (
            range(len(prompts))
            if not attempt
            else [i for i, (outcome, *_) in enumerate(outcomes) if isinstance(outcome, RejectedValue)]
        )
        for i in wanted:
            if attempt:
                refused = outcomes[i].outcome
                assert isinstance(refused, RejectedValue)
                current[i] = retry_prompt(prompts[i][1], refused)
            generator = prompts[i][0]
            try:
                request = generator._request(
                    current[i],
                    sequence=attempt,
                    **(retry_settings(extractor, settings) if attempt else settings),
                )
            except ConstrainedError as error:
                if not attempt:
                    outcomes.append(Completion(error, 0, current[i]))
                elif not isinstance(error, PromptTooLong):  # then the refusal remains the reason
                    outcomes[i] = Completion(error, attempt, current[i])
                continue
            members.append((i, BatchedRequest(generator, request)))
            if not attempt:
                outcomes.append(Completion(RejectedValue("not read yet"), 0, current[i]))
        if not members:
            break
        yield [member for _, member in members]
        for i, member in members:
            assert member.outcome is not None
            outcome = _unless_cut(member.outcome, extractor.on_limit)
            outcomes[i] = Completion(outcome, attempt + 1, current[i])
    return outcomes


def _unless_cut(outcome: Outcome, on_limit: OnLimit) -> Outcome:
    """The outcome, or `Truncated` in its place."""
    try:
        with truncation_first(on_limit):
            if isinstance(outcome, ConstrainedError):
                raise outcome
            outcome.raise_if_cut(on_limit)
    except ConstrainedError as error:
        return error
    return outcome


def retry_settings(extractor: Extractor[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a retry: as of the first attempt, but never greedy."""
    changed = dict(settings)
    shape = {name: value for name, value in settings.items() if name not in ("max_tokens", "seed")}
    if extractor.generator.sampler.warper(**shape).greedy:
        changed["temperature"] = RETRY_TEMPERATURE
        if changed.get("seed") is None:
            changed["seed"] = 0  # a greedy run can be repeated, and so can its retries
    return changed
