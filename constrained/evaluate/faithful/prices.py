"""What AWRS asks of a constraint, beside a mask: questions per token, and the price of a dear predicate."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from constrained.constraint import json_schema, predicate, regex
from constrained.decoding import Generator
from constrained.errors import Described
from constrained.evaluate.masks import workload
from constrained.models import LanguageModel
from constrained.sampling import AWRS, Local

_PATTERN = "[ -~]+"
_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Questions:
    """How often AWRS asks, with a model that reads prompts, over recorded schemas.

    Attributes:
        vocabulary: tokens: what a mask decides about.
        schemas: that texts were written for.
        failed: for which none was.
        texts: how many.
        mean, median, most: questions per token of a text.
    """

    vocabulary: int
    schemas: int
    failed: int
    texts: int
    mean: float
    median: float
    most: float

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Price:
    """Time per token under a predicate that takes a while, by masks and by AWRS, in one run.

    Attributes:
        milliseconds: that one question takes.
        tokens: written by each.
        masked, checked: seconds per token.
        masked_calls, checked_calls: questions per token that the predicate was really asked.
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

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self) | {"ratio": self.ratio}


def questions(model: LanguageModel, data: Path, sample: int, seed: int) -> Questions:
    """Writes a text for each schema of a sample, at temperature 1 and up to 64 tokens.

    Rows that are known are not used: each token is checked.

    Args:
        model: reads prompts.
        data: MaskBench data.
        sample: how many schemas; 0: all.
        seed: of the sample and the texts.
    """
    ratios: list[float] = []
    failed = 0
    for row in workload.sample(data, sample, seed):
        try:
            generator = Generator(model, json_schema(row["schema"]), sampler=AWRS(cached=False))
            out = generator("A record as JSON:", seed=seed, temperature=1.0, max_tokens=64)
        except Described:  # refused, too large, longer than 64 tokens: this measures the others
            failed += 1
            continue
        if out.tokens:
            ratios.append(out.stats.checks / len(out.tokens))
    return Questions(
        model.vocabulary.size,
        len(ratios) + failed,
        failed,
        len(ratios),
        statistics.fmean(ratios) if ratios else 0.0,
        statistics.median(ratios) if ratios else 0.0,
        max(ratios, default=0.0),
    )


def price(model: LanguageModel, milliseconds: float, seed: int) -> Price:
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
        asked = 0

        def slow(text: str) -> bool:
            nonlocal asked
            asked += 1
            until = time.perf_counter() + milliseconds / 1000
            while time.perf_counter() < until:
                pass
            return not text.endswith("  ")

        generator = Generator(model, regex(_PATTERN) & predicate(slow), sampler=sampler)
        Generator(model, regex(_PATTERN))("A line of text:", seed=seed, max_tokens=2)
        began = time.perf_counter()
        out = generator("A line of text:", seed=seed, temperature=1.0, max_tokens=_TOKENS)
        seconds.append((time.perf_counter() - began) / len(out.tokens))
        calls.append(asked / len(out.tokens))
        texts.append(out.text)
    assert texts[0] == texts[1], texts
    return Price(milliseconds, len(out.tokens), *seconds, *calls)


def as_json(row: Any) -> str:
    """One line."""
    return json.dumps(row.to_json())
