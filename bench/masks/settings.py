"""What `bench masks` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import SCHEMAS_HELP, VOCABULARY_HELP, check_distinct, names
from constrained.bench.masks.engines import DEFAULT_ENGINES, check_engine
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class MaskBenchSettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range, or an engine unknown.
    """

    data: Path | None = option(None, SCHEMAS_HELP, metavar="FILE")
    sample: int = option(600, "Schemas to sample; 0: all.", least=0)
    seed: int = option(0, "Same seed, same sample.", least=0)
    engines: tuple[str, ...] = names(DEFAULT_ENGINES, "In this order; MODULE:CLASS for your own.")
    vocabulary: str = option("tekken", VOCABULARY_HELP, metavar="NAME_OR_FOLDER")
    time_limit: float = option(120.0, "For one schema under one engine.", above=0, metavar="SECONDS")
    memory_limit: float = option(8.0, "For the process of an engine.", above=0, metavar="GIB")
    warm: bool = option(False, "Also measure each schema a second time.", flag="--warm")
    batch: int = option(0, "Also measure N states in one call.", least=0)
    threads: int = option(1, "Threads of each engine.", least=1)
    compare: bool = option(
        False, "Also compare all masks with the first engine's (small samples).", flag="--compare"
    )

    def __post_init__(self) -> None:
        check_distinct(self.engines, "engine")
        for name in self.engines:
            check_engine(name)
        check_ranges(self)
