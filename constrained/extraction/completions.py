"""Completions of prompts, and the retries of refused values."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.decoding.cut import OnLimit, truncation_first
from constrained.decoding.output import Output
from constrained.decoding.request_runner import BatchedRequest
from constrained.errors import ConstrainedError, PromptTooLong, RejectedValue
from constrained.extraction.first_pass import FirstText
from constrained.extraction.prompt import retry_prompt
from constrained.models import Prompt

if TYPE_CHECKING:
    from constrained.decoding import Generator as Decoder
    from constrained.extraction.closed_members import MemberQuestions
    from constrained.extraction.plan import ExtractionPlan

RETRY_TEMPERATURE = 0.7
"""Temperature of a retry where decoding is greedy: without one a model would often repeat what was refused."""

Outcome = Output[Any] | ConstrainedError


class Completion(NamedTuple):
    """What became of a prompt: the last outcome, the number of attempts, the prompt of the last, and what was written first."""

    outcome: Outcome
    attempts: int
    prompt: Prompt
    first_text: str | None = None


def completions(
    plan: ExtractionPlan[Any],
    prompts: Sequence[tuple[Decoder[Any], Prompt]],
    settings: Mapping[str, Any],
    questions: MemberQuestions | None = None,
    first: Decoder[Any] | None = None,
) -> Generator[list[BatchedRequest], None, list[Completion]]:
    """Completes prompts side by side, each by its generator.

    What code of the type refuses is generated again, `plan.retries` times. A retry shows the model the refused completion and the reason, and draws with other random numbers (the number of the
    attempt is the request's `sequence`); greedy decoding draws at `RETRY_TEMPERATURE`. A first pass comes before each attempt. `questions` are asked
    in the first attempt, and `first` completes it, if there is one: what was decided may be the reason of a refusal.

    Returns:
        For each prompt, its `Completion`.
    """
    outcomes: dict[int, Completion] = {}
    for attempt in range(plan.retries + 1):
        members: dict[int, BatchedRequest] = {}
        wanted = retry_settings(plan, settings) if attempt else settings
        begun = yield from _begun(plan, prompts, outcomes, wanted, attempt)
        for i, text in begun.items():
            generator = prompts[i][0] if attempt or first is None else first
            try:
                if isinstance(text, ConstrainedError):
                    raise text
                members[i] = BatchedRequest(
                    generator,
                    generator._request(
                        text.prompt, sequence=attempt, questions=None if attempt else questions, **wanted
                    ),
                )
            except ConstrainedError as error:
                if not attempt or not isinstance(error, PromptTooLong):  # then the refusal remains the reason
                    outcomes[i] = Completion(error, attempt, prompts[i][1])
        if not members:
            break
        yield list(members.values())
        for i, member in members.items():
            assert member.outcome is not None
            text = begun[i]
            assert isinstance(text, FirstText)
            outcome = _unless_cut(member.outcome, plan.on_limit)
            if isinstance(outcome, RejectedValue) and attempt == plan.retries > 0:
                outcome.reword(
                    action=f"{attempt + 1} answers were refused: express the rule in the schema of the type, or in instructions"
                )
            outcomes[i] = Completion(outcome, attempt + 1, text.prompt, text.text)
    return [outcomes[i] for i in range(len(prompts))]


def _begun(
    plan: ExtractionPlan[Any],
    prompts: Sequence[tuple[Decoder[Any], Prompt]],
    outcomes: Mapping[int, Completion],
    settings: Mapping[str, Any],
    attempt: int,
) -> Generator[list[BatchedRequest], None, dict[int, FirstText | ConstrainedError]]:
    """By number, the prompts of an attempt: all of them at first, then those whose value was refused; behind a first pass."""
    asked: dict[int, Prompt] = {}
    for i, (_, prompt) in enumerate(prompts):
        refused = outcomes[i].outcome if attempt else None
        if not attempt:
            asked[i] = prompt
        elif isinstance(refused, RejectedValue):
            asked[i] = retry_prompt(prompt, refused)
    if plan.first_pass is None:
        return {i: FirstText(prompt, None) for i, prompt in asked.items()}
    texts = yield from plan.first_pass.steps(asked, settings, attempt)
    return texts


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


def retry_settings(plan: ExtractionPlan[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a retry: as of the first attempt, but never greedy."""
    changed = dict(settings)
    shape = {name: value for name, value in settings.items() if name not in ("max_tokens", "seed")}
    if plan.generator.sampler.warper(**shape).greedy:
        changed["temperature"] = RETRY_TEMPERATURE
        if changed.get("seed") is None:
            changed["seed"] = 0  # a greedy run can be repeated, and so can its retries
    return changed
