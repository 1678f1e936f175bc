"""What `bench replay` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import SCHEMAS_HELP, VOCABULARY_HELP, names
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range.
    """

    data: Path | None = option(None, SCHEMAS_HELP, metavar="FILE")
    sample: int = option(800, "Recorded values, one for each schema.", least=1)
    seed: int = option(0, "Of the sample and of the documents.", least=0)
    nodes: int = option(64, "Draft tokens per forward pass.", least=1)
    vocabulary: str = option("tekken", VOCABULARY_HELP, metavar="NAME_OR_FOLDER")
    only: tuple[str, ...] = names((), "Configurations to measure [default: all].", between=";")
    prior: str = option(
        "shipped",
        "What drafters know before: shipped, none, or a file of `bench prior`.",
        metavar="NAME_OR_FILE",
    )
    splits: tuple[str, ...] = names((), "Rows whose ids begin so [default: all].")

    def __post_init__(self) -> None:
        check_ranges(self)
