"""Checks of AWRS per token, beside a mask, and the cost of an expensive predicate."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.bench.masks import workload
from constrained.constraint import json_schema, predicate, regex
from constrained.decoding import Generator
from constrained.errors import ConstrainedError
from constrained.models import LanguageModel
from constrained.sampling import AWRS, Local
from constrained.sampling.awrs import PATIENCE

_PROMPT = "A record as JSON:"
_PATTERN = "[ -~]+"
_TOKENS = 8


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """Checks of AWRS with a model that reads prompts, over recorded schemas.

    Attributes:
        vocabulary: tokens: what a mask decides about.
        patience: rejected tokens after which the mask was computed; None for never.
        schemas: that texts were to be written for.
        texts: how many were written in both ways: the figures are of these.
        tokens: of these texts.
        mean, median, most: checks per token of a completion.
    """

    vocabulary: int
    patience: int | None
    schemas: int
    texts: int
    tokens: int
    mean: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class PredicateCost:
    """Time per token under a predicate that takes a while, by masks and by AWRS, in one run.

    Attributes:
        milliseconds: that one question takes.
        tokens: written by each.
        masked, checked: seconds per token.
        masked_calls, checked_calls: calls of the predicate per token.
    """

    milliseconds: float
    tokens: int
    masked: float
    checked: float
    masked_calls: float
    checked_calls: float

    @property
    def ratio(self) -> float:
        """How many times as long masks take."""
        return self.masked / self.checked


def count_checks(model: LanguageModel, data: Path, sample: int, seed: int) -> list[CheckCounts]:
    """Writes a text for each schema of a sample, at temperature 1 and up to 64 tokens.

    Rows that are known are not used. The same texts are written twice: with a row never being asked for, as under
    a predicate, and with the patience that AWRS has by default where a row is one question.

    Args:
        model: reads prompts.
        data: MaskBench data.
        sample: how many schemas; 0: all.
        seed: of the sample and the texts.
    """
    rows = list(workload.sample(data, sample, seed))
    patiences = (None, PATIENCE)
    results = [[_count_one(model, row["schema"], patience, seed) for row in rows] for patience in patiences]
    written = [pair for pair in zip(*results, strict=True) if all(pair)]
    counts = []
    for way, patience in enumerate(patiences):
        kept = [found for pair in written if (found := pair[way])]
        ratios = [checks / tokens for checks, tokens in kept] or [0.0]
        counts.append(
            CheckCounts(
                vocabulary=model.vocabulary.size,
                patience=patience,
                schemas=len(rows),
                texts=len(kept),
                tokens=sum(tokens for _, tokens in kept),
                mean=statistics.fmean(ratios),
                median=statistics.median(ratios),
                most=max(ratios),
            )
        )
    return counts


def _count_one(model: LanguageModel, schema: Any, patience: int | None, seed: int) -> tuple[int, int] | None:
    """(checks, tokens) of one completion; None if it is refused, too large, or longer than 64 tokens."""
    sampler = AWRS(cached=False, patience=patience or model.vocabulary.size)
    try:
        generator = Generator(model, json_schema(schema), sampler=sampler, speculation=None)
        out = generator(_PROMPT, seed=seed, temperature=1.0, max_tokens=64)
    except ConstrainedError:
        return None
    return (out.stats.checks, len(out.tokens)) if out.tokens else None


def measure_predicate_cost(model: LanguageModel, milliseconds: float, seed: int) -> PredicateCost:
    """Writes one text twice, printable ASCII under a predicate that takes its time: by masks, then by AWRS.

    Both draw the same tokens. The first pass of the model, which is slower than others, is not measured.

    Args:
        model: reads prompts.
        milliseconds: for one question, spent waiting in a loop.
        seed: of the text.
    """
    seconds: list[float] = []
    calls: list[float] = []
    texts: list[str] = []
    for sampler in (Local(), AWRS()):
        call_count = 0

        def slow(text: str) -> bool:
            nonlocal call_count
            call_count += 1
            until = time.perf_counter() + milliseconds / 1000
            while time.perf_counter() < until:
                pass
            return not text.endswith("  ")

        generator = Generator(model, regex(_PATTERN) & predicate(slow), sampler=sampler, speculation=None)
        Generator(model, regex(_PATTERN))("A line of text:", seed=seed, max_tokens=2)
        began = time.perf_counter()
        out = generator("A line of text:", seed=seed, temperature=1.0, max_tokens=_TOKENS)
        seconds.append((time.perf_counter() - began) / len(out.tokens))
        calls.append(call_count / len(out.tokens))
        texts.append(out.text)
    assert texts[0] == texts[1], texts
    return PredicateCost(milliseconds, len(out.tokens), *seconds, *calls)
