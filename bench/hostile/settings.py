"""What `bench hostile` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.harness.settings import SCHEMAS_HELP, VOCABULARY_HELP, names
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class HostileSettings:
    """What to measure, each case in a process with limits.

    Raises:
        InvalidArgument: a value is out of range.
    """

    everything: bool = option(
        False, "All cases that the tests have, not only one of each family.", flag="--all"
    )
    schemas: int | None = option(None, "So many real schemas instead; 0: all of the data.", least=0)
    data: Path | None = option(None, SCHEMAS_HELP, metavar="FILE")
    engines: tuple[str, ...] = names(
        ("constrained", "llguidance", "xgrammar"), "In this order; MODULE:CLASS for your own."
    )
    vocabulary: str = option("tekken", VOCABULARY_HELP, metavar="NAME_OR_FOLDER")
    time_limit: int = option(
        25, "Of processor time, for one case under one engine.", least=1, metavar="SECONDS"
    )
    memory_limit: int = option(
        4 << 30, "Of address space, for one case.", above=0, unit=1 << 30, metavar="GIB"
    )
    steps: int = option(40, "Tokens of each text.", least=1)
    seed: int = option(0, "Of the tokens that are followed, and of the schemas.", least=0)

    def __post_init__(self) -> None:
        check_ranges(self)
