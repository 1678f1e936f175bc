"""What `bench fidelity` measures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from constrained.bench.fidelity import samplers, tasks
from constrained.bench.harness.settings import check_minimum, check_positive
from constrained.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class FidelitySettings:
    """What to measure.

    Attributes:
        tasks: names or families; none for all.
        samplers: names out of `samplers.ENTRIES`; none for all.
        sizes: texts of a set, ascending.
        repeats: sets of each size.
        seed: of everything.
        time_limit: seconds that a set may be expected to take, and a block of ten texts while CARS learns.
        model: ``n-gram`` for each task's own, or what `constrained.load` takes.
        budget: prefixes that the enumeration of a distribution may visit.
        learning: texts over which the falling cost of CARS is shown; 0 for none.
        data: MaskBench data for the checks of AWRS; None to leave them out.
        schemas: how many of them.
        predicate: milliseconds of the expensive predicate; 0 to leave it out.
        genlm: a Python interpreter that has genlm-control, to measure it as well; only with ``n-gram``.

    Raises:
        InvalidArgument: a value is out of range, or a name unknown.
    """

    tasks: tuple[str, ...] = ()
    samplers: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (10, 30, 100, 300)
    repeats: int = 1
    seed: int = 0
    time_limit: float = 20.0
    model: str = "n-gram"
    budget: int = 50_000
    learning: int = 100
    data: Path | None = None
    schemas: int = 30
    predicate: float = 1.0
    genlm: str | None = None

    def __post_init__(self) -> None:
        tasks.select_tasks(self.tasks)
        samplers.check_samplers(self.samplers)
        if (
            not self.sizes
            or any(size < 1 for size in self.sizes)
            or list(self.sizes) != sorted(set(self.sizes))
        ):
            raise InvalidArgument(f"sizes are {self.sizes}", action="pass whole numbers >= 1 that grow")
        check_minimum(self, repeats=1, learning=0, seed=0)
        check_positive(self, "time_limit")
        if self.predicate < 0:
            raise InvalidArgument(f"predicate is {self.predicate}", action="pass milliseconds, or 0")
        if self.genlm and self.model != "n-gram":
            raise InvalidArgument(
                "genlm-control is measured on n-gram models only", action="leave --genlm or --model out"
            )
