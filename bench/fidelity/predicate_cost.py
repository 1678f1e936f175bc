"""The cost of an expensive predicate: by masks, and by AWRS."""

from __future__ import annotations

import time
from dataclasses import dataclass

from constrained.constraint import predicate, regex
from constrained.decoding import Generator
from constrained.models import LanguageModel
from constrained.sampling import AWRS, Local

_PATTERN = "[ -~]+"
_TOKENS = 8


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
