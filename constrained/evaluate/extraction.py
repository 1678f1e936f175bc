"""Documents per second and peak memory: `extract_many` against a loop of `extract`."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_LIMITS: dict[str, Any] = {"max_tokens": 64, "on_limit": "close"}
"""Where the model repeats itself, the value does not matter here, and the number of tokens should not."""

CITIES = ("Oslo", "Lyon", "Porto", "Graz", "Turin", "Brno", "Ghent", "Malmö")


@dataclass
class Order:
    """An order of a shop."""

    order_id: int
    total: float
    city: str
    paid: bool


def generated_documents(count: int) -> Iterator[str]:
    """Short letters about orders, each of them different; made as they are read."""
    for i in range(count):
        state = "has been paid" if i % 3 else "has not been paid yet"
        greeting = "Dear customer, thank you for shopping with us. " * (i % 4)
        yield f"{greeting}Order {4700 + i} comes to {i % 900}.{i % 9}5 in total. It goes to {CITIES[i % 8]} and {state}."


@dataclass(frozen=True)
class Throughput:
    """A pair of runs over the same documents.

    Attributes:
        batch_size: of `extract_many`.
        loop_seconds: seconds per document of the loop.
        many_seconds: seconds per document of `extract_many`.
        equal: whether all values were equal.
    """

    batch_size: int
    loop_seconds: float
    many_seconds: float
    equal: bool

    @property
    def ratio(self) -> float:
        """How many documents `extract_many` reads in the time in which the loop reads one."""
        return self.loop_seconds / self.many_seconds


def measure_throughput(model: Any, batch_sizes: Sequence[int], count: int) -> Iterator[Throughput]:
    """For each batch size, a loop and a batch over the same documents, one directly after the other."""
    import constrained

    texts = list(generated_documents(count))
    constrained.extract(model, texts[0], Order, **_LIMITS)  # compiles the type

    def loop() -> list[Any]:
        return [constrained.extract(model, text, Order, **_LIMITS) for text in texts]

    def many() -> list[Any]:
        found = constrained.extract_many(model, texts, Order, batch_size=size, ordered=True, **_LIMITS)
        return [result.value for result in found]

    for size in batch_sizes:
        loop_seconds, alone = _timed(loop)
        many_seconds, together = _timed(many)
        yield Throughput(size, loop_seconds / count, many_seconds / count, alone == together)


def measure_peak_memory(counts: Sequence[int], batch_size: int) -> Iterator[tuple[int, float]]:
    """Peak resident memory in MiB of a process that reads so many documents, for each count."""
    context = multiprocessing.get_context("spawn")
    for count in counts:
        with context.Pool(1) as pool:
            yield count, pool.apply(_peak_memory, (count, batch_size))


def _peak_memory(count: int, batch_size: int) -> float:
    import torch

    import constrained

    torch.set_num_threads(1)
    found = constrained.extract_many(
        constrained.load(), generated_documents(count), Order, batch_size=batch_size, **_LIMITS
    )
    for result in found:
        assert result.error is None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _timed(run: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    start = time.perf_counter()
    values = run()
    return time.perf_counter() - start, values
