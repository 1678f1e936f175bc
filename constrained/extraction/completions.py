"""Completions of prompts, and the retries of refused values."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from constrained.decoding.cut import OnLimit, truncation_first
from constrained.decoding.output import Output
from constrained.decoding.request_batch import BatchedRequest
from constrained.errors import ConstrainedError, PromptTooLong, RejectedValue
from constrained.extraction.prompt import retry_prompt
from constrained.models import Prompt

if TYPE_CHECKING:
    from constrained.decoding import Generator as Decoder
    from constrained.extraction.plan import ExtractionPlan

RETRY_TEMPERATURE = 0.7
"""Temperature of a retry where decoding is greedy: without one a model would often repeat what was refused."""

Outcome = Output[Any] | ConstrainedError


class Completion(NamedTuple):
    """What became of a prompt: the last outcome, the number of attempts, and the prompt of the last."""

    outcome: Outcome
    attempts: int
    prompt: Prompt


def completions(
    plan: ExtractionPlan[Any],
    prompts: Sequence[tuple[Decoder[Any], Prompt]],
    settings: Mapping[str, Any],
) -> Generator[list[BatchedRequest], None, list[Completion]]:
    """Completes prompts side by side, each by its generator.

    What code of the type refuses is generated again, `plan.retries` times. A retry shows the model the refused completion and the reason, and draws with other random numbers (the number of the
    attempt is the request's `sequence`); greedy decoding draws at `RETRY_TEMPERATURE`.

    Returns:
        For each prompt, its `Completion`.
    """
    outcomes: list[Completion] = []
    current = [prompt for _, prompt in prompts]
    for attempt in range(plan.retries + 1):
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
                    **(retry_settings(plan, settings) if attempt else settings),
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
            outcome = _unless_cut(member.outcome, plan.on_limit)
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


def retry_settings(plan: ExtractionPlan[Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a retry: as of the first attempt, but never greedy."""
    changed = dict(settings)
    shape = {name: value for name, value in settings.items() if name not in ("max_tokens", "seed")}
    if plan.generator.sampler.warper(**shape).greedy:
        changed["temperature"] = RETRY_TEMPERATURE
        if changed.get("seed") is None:
            changed["seed"] = 0  # a greedy run can be repeated, and so can its retries
    return changed
