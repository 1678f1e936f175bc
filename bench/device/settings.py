"""What `bench device` measures."""

from __future__ import annotations

from dataclasses import dataclass

from constrained.bench.harness.settings import counts, names
from constrained.options import check_ranges, documented, option


@documented
@dataclass(frozen=True, slots=True)
class DeviceBenchSettings:
    """What to measure.

    Raises:
        InvalidArgument: a value is out of range.
    """

    device: str = option("cuda", "Of torch: cuda, cuda:1, cpu.")
    shapes: tuple[str, ...] = names(("1b", "8b"), "Models of random weights that are timed.")
    vocabulary: str | None = option(None, "Of the models; by default the shape's own.")
    engines: tuple[str, ...] = names(("eager", "static", "compiled"), "Some of these.")
    nodes: tuple[int, ...] = counts((1, 8, 64), "Tokens of a pass.")
    context: int = option(2048, "Tokens of the prompt.", least=1)
    tokens: int = option(256, "Tokens of a completion.", least=16)
    small: bool = option(False, "Small kernels and few repeats: to see that it runs.", flag="--small")
    seed: int = option(0, "Of weights and texts.", least=0)

    def __post_init__(self) -> None:
        check_ranges(self)
