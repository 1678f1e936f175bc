"""What `bench fidelity` measures."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.bench.harness.settings import counts, names
from constrained.errors import InvalidArgument
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class FidelitySettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range.
    """

    tasks: tuple[str, ...] = names((), "Tasks or families [default: all].")
    samplers: tuple[str, ...] = names((), "Samplers, with ; between [default: all].", between=";")
    sizes: tuple[int, ...] = counts((10, 30, 100, 300), "Samples in a set.")
    repeats: int = option(1, "Sets of each size.", least=1)
    seed: int = option(0, "Of everything.", least=0)
    time_limit: float = option(
        20.0,
        "Most expected time of a set, and of ten texts while cars learns; slower ones are left out.",
        above=0,
        metavar="SECONDS",
    )
    model: str = option(
        "n-gram", "n-gram: one for each task; bundled; or a Hugging Face model.", metavar="NAME"
    )
    budget: int = option(50_000, "Most prefixes to visit for an exact distribution.", least=1)
    learning: int = option(
        100, "Samples over which the cost of cars is shown as it learns; 0: none.", least=0
    )
    predicate: float = option(1.0, "Time of an expensive predicate; 0: leave it out.", least=0, metavar="MS")
    genlm: str | None = option(
        None, "A Python interpreter with genlm-control: measure that, too.", metavar="PYTHON"
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            raise InvalidArgument(f"sizes are {self.sizes}", action="pass whole numbers >= 1 that grow")
        if self.genlm and self.model != "n-gram":
            raise InvalidArgument(
                "genlm-control is measured on n-gram models only", action="leave --genlm or --model out"
            )
