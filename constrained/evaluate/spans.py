"""What grounding costs: compiling the spans of a document, their masks, and the search for values."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass
from typing import Any

from constrained.automaton import DEAD, compile
from constrained.constraint import Constraint, json_schema
from constrained.evaluate.longest_match import longest_tokens
from constrained.extraction.grounding import find_spans
from constrained.vocabulary import Vocabulary

_KEYWORDS: dict[str, Any] = {
    "exact": True,
    "case": {"case": "any"},
    "space": {"space": "any"},
    "case, space": {"case": "any", "space": "any"},
    "words": {"words": True},
}


@dataclass(frozen=True, slots=True)
class SpanCosts:
    """The cost of one kind of span; all times in seconds of the thread.

    Attributes:
        name: the relaxation.
        compile: to bind and compile the constraint; of all rounds the least.
        masks: of the masks along the completion, in order; of each the least of all rounds.
        search: to find the values in the document.
    """

    name: str
    compile: float
    masks: list[float]
    search: float


def synthetic_text(characters: int, rng: random.Random) -> str:
    """Text of words with natural frequencies (Zipf), in lines and sentences."""
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(rng.choices(letters, range(22, 0, -1), k=rng.randrange(2, 10))) for _ in range(8000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    parts: list[str] = []
    size = 0
    while size < characters:
        line = " ".join(rng.choices(words, weights, k=12)).capitalize() + f", {rng.randrange(10**6)}.\n"
        parts.append(line)
        size += len(line)
    return "".join(parts)[:characters]


def measure_spans(
    vocabulary: Vocabulary, characters: int, count: int, seed: int, rounds: int = 1
) -> list[SpanCosts]:
    """Replays random spans of whole words of a synthetic document, greedily tokenised.

    Each round begins with tables that know no document. What other processes do to the caches of the machine differs from
    round to round: the least time of a mask is the time that it takes.
    """
    rng = random.Random(seed)
    text = synthetic_text(characters, rng)
    breaks = [i for i, char in enumerate(text) if char == " "]
    values = []
    for _ in range(count):
        first = rng.randrange(len(breaks) - 6)
        last = first + rng.randrange(1, 5)
        values.append(text[breaks[first] + 1 : breaks[last]].strip(" ,.\n"))
    values = [value for value in values if value]
    tokens = longest_tokens(json.dumps(values, ensure_ascii=False).encode(), vocabulary.ids_by_bytes)
    began = time.thread_time()
    find_spans(text, values)
    search = time.thread_time() - began
    found = []
    for name, keyword in _KEYWORDS.items():
        constraint = json_schema({"type": "array", "items": {"type": "string", "x-span": keyword}}).bind(text)
        compiled, masks = zip(*(_replay(constraint, vocabulary, tokens) for _ in range(rounds)), strict=True)
        least = [min(times) for times in zip(*masks, strict=True)]
        found.append(SpanCosts(name, min(compiled), least, search))
    return found


def _replay(constraint: Constraint, vocabulary: Vocabulary, tokens: list[int]) -> tuple[float, list[float]]:
    """Seconds to compile, and for each mask, with tables of its own."""
    fresh = vocabulary.with_shards(1)
    _ = fresh.core
    began = time.thread_time()
    automaton = compile(constraint, fresh)
    compiled = time.thread_time() - began
    mask, state, masks = automaton.new_mask(), automaton.start, []
    for token in tokens:
        began = time.thread_time()
        automaton.fill_mask(state, mask)
        masks.append(time.thread_time() - began)
        state = automaton.next(state, token)
        if state == DEAD:
            raise RuntimeError("a span of the document was refused")
    return compiled, masks


def format_spans(costs: list[SpanCosts]) -> list[str]:
    """A table of the costs, masks in microseconds."""
    lines = [
        f"{'spans':12} {'compile, ms':>12} {'masks':>6} {'p50, us':>8} {'p90':>8} {'p99':>8} {'first':>9}"
    ]
    for one in costs:
        times = sorted(one.masks)
        ranks = [1e6 * times[min(len(times) - 1, int(part * len(times)))] for part in (0.5, 0.9, 0.99)]
        numbers = " ".join(f"{value:8.1f}" for value in ranks)
        lines.append(
            f"{one.name:12} {1e3 * one.compile:12.0f} {len(times):6} {numbers} {1e6 * times[-1]:9.0f}"
        )
    lines.append(f"search for the values: {1e3 * costs[0].search:.0f} ms")
    return lines
