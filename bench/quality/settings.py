"""What `bench quality` measures."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.bench.harness.settings import check_distinct, names
from constrained.bench.jsonschemabench.settings import SCHEMA_BENCH_ENGINES
from constrained.bench.masks.engines import check_engine
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class QualitySettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range, or an engine is unknown.
    """

    model: str = option("bundled", "A name or folder of a chat model.", flag="--model -m", metavar="NAME")
    tasks: tuple[str, ...] = names(("last_letters", "shuffled_objects"), "In this order.")
    engines: tuple[str, ...] = names(SCHEMA_BENCH_ENGINES, "In this order; MODULE:CLASS for your own.")
    n: int = option(50, "Puzzles of each task.", least=1)
    seed: int = option(0, "Same seed, same puzzles.", least=0)
    shots: int = option(3, "Examples in the prompt, with their reasoning.", least=0)
    max_tokens: int = option(256, "Token limit.", least=1)

    def __post_init__(self) -> None:
        check_distinct(self.tasks, "task")
        check_distinct(self.engines, "engine")
        for name in self.engines:
            check_engine(name)
        check_ranges(self)
