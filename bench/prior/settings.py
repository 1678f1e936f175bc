"""What `bench prior` counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import VOCABULARY_HELP, names
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class PriorSettings:
    """What is counted, and by what draft tokens are calibrated.

    Raises:
        InvalidArgument: a value is out of range.
    """

    data: Path | None = option(
        None,
        "MaskBench data, or a folder of JSON files, each a text of its own schema [default: the MaskBench data].",
        metavar="FILE_OR_FOLDER",
    )
    schemas: int = option(3, "Keep what occurs under K schemas.", least=1, metavar="K")
    share: int = option(2, "Count one row in N, by its name.", least=1)
    without: tuple[str, ...] = names((), "Leave out rows whose ids begin so.")
    extractions: int = option(
        100,
        "Extractions by the bundled model to calibrate by, about documents of the split that it was trained on.",
        least=0,
    )
    vocabulary: str = option("tekken", VOCABULARY_HELP, metavar="NAME_OR_FOLDER")
    replays: int = option(200, "Recorded texts to calibrate by.", least=1, flag=None)
    nodes: int = option(64, "Draft tokens of a tree.", least=1, flag=None)

    def __post_init__(self) -> None:
        check_ranges(self)
