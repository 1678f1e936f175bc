"""Speculation where it pays and where not: identical batches with and without it, alternating.

Two kinds of text. *extractions*: greedy, under a schema, out of a short text: many draft tokens are accepted. *noise*: any
characters, at a temperature so high that hardly any draft token is accepted. Random weights only have noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from constrained.bench.harness.settings import Progress, no_progress
from constrained.bench.speed.cases import cases
from constrained.bench.speed.run import SpeedSettings, build_model
from constrained.constraint import json_schema, regex
from constrained.decoding import Generator
from constrained.models.hugging_face import HuggingFaceModel
from constrained.sampling import Local

EXTRACTIONS, NOISE = "extractions", "noise"
_HOT = 4.0
_ANYTHING = "[ -~]{16,8000}"
_TOKENS = 64  # of a text of noise


@dataclass(slots=True)
class SpeculationTrial:
    """One kind of text in batches of one size.

    Attributes:
        kind: of text.
        batch: texts side by side.
        tokens: written, once.
        baseline, speculative: seconds of processor time of each batch.
        drafted, accepted: draft tokens that were verified, and accepted.
    """

    kind: str
    batch: int
    tokens: int = 0
    baseline: list[float] = field(default_factory=list)
    speculative: list[float] = field(default_factory=list)
    drafted: int = 0
    accepted: int = 0

    @property
    def ratio(self) -> float:
        """Tokens per second with speculation, over those without."""
        return sum(self.baseline) / sum(self.speculative)

    @property
    def error(self) -> float:
        """Standard error of the ratio, over batches."""
        n = len(self.baseline)
        if n < 2:
            return math.nan
        off = [a - self.ratio * b for a, b in zip(self.baseline, self.speculative, strict=True)]
        return math.sqrt(n / (n - 1) * sum(one**2 for one in off)) / sum(self.speculative)


def measure(
    settings: SpeedSettings,
    batches: tuple[int, ...] = (1, 4, 16),
    progress: Progress = no_progress,
) -> tuple[list[SpeculationTrial], HuggingFaceModel]:
    """With and without speculation, alternating, on identical prompts; `settings.sample` texts of each kind and size, one batch at least.

    A batch more, in front, warms up and is not counted.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        model, _ = build_model(settings)
        found = []
        kinds = (NOISE,) if settings.random is not None else (EXTRACTIONS, NOISE)
        for kind in kinds:
            for batch in batches:
                found.append(SpeculationTrial(kind, batch))
                rounds = max(1, settings.sample // batch)
                for number, job in enumerate(_jobs(model, kind, batch, rounds + 1, settings)):
                    _measure(found[-1], job, counts=number > 0, first=number % 2)
                    progress(f"{kind}, batch {batch}", number, rounds)
        return found, model
    finally:
        torch.set_num_threads(threads)


Job = dict[bool, Callable[[], list[Any]]]
"""A batch with (True) and without (False) speculation."""


def _jobs(
    model: HuggingFaceModel, kind: str, batch: int, count: int, settings: SpeedSettings
) -> Iterator[Job]:
    if kind == EXTRACTIONS:
        found = list(cases(model, batch * count, settings.seed, recorded=False))
        for number in range(count):
            some = found[number * batch : (number + 1) * batch]
            yield _job(model, json_schema(some[0].schema), [one.prompt for one in some], settings.max_tokens)
        return
    constraint = regex(_ANYTHING)
    prompts = [model.vocabulary.encode(f"Say anything, for the {number}th time:") for number in range(batch)]
    for number in range(count):
        yield _job(
            model,
            constraint,
            prompts,
            min(_TOKENS, settings.max_tokens),
            temperature=_HOT,
            seed=settings.seed + number,
        )


def _job(
    model: HuggingFaceModel, constraint: Any, prompts: list[list[int]], limit: int, **settings: Any
) -> Job:
    made = {
        draft: Generator(
            model, constraint, sampler=Local(ends="certain"), speculation="auto" if draft else None
        )
        for draft in (True, False)
    }
    return {
        draft: lambda one=one: one.batch(prompts, max_tokens=limit, **settings)  # type: ignore[misc]
        for draft, one in made.items()
    }


def _measure(trial: SpeculationTrial, job: Job, *, counts: bool, first: int) -> None:
    seconds, texts = {}, {}
    for draft in (bool(first), not first):
        began = time.process_time()
        outputs = job[draft]()
        seconds[draft] = time.process_time() - began
        texts[draft] = [output.tokens for output in outputs]
        if draft and counts:
            trial.drafted += sum(output.stats.drafted for output in outputs)
            trial.accepted += sum(output.stats.accepted for output in outputs)
    if counts:
        trial.tokens += sum(map(len, texts[True]))
        trial.speculative.append(seconds[True])
        trial.baseline.append(seconds[False])
