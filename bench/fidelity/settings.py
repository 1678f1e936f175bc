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
        vocabularies: sizes of parts of the tekken vocabulary in which checks are counted as well, ascending.
        predicate: milliseconds of the expensive predicate; 0 to leave it out.
        genlm: a Python interpreter that has genlm-control, to measure it as well; only with ``n-gram``.
        resampling: sets of `smc` for each threshold and scheme of resampling; 0 to leave them out; only with ``n-gram``.

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
    vocabularies: tuple[int, ...] = ()
    predicate: float = 1.0
    genlm: str | None = None
    resampling: int = 0

    def __post_init__(self) -> None:
        tasks.select_tasks(self.tasks)
        samplers.check_samplers(self.samplers)
        if (
            not self.sizes
            or any(size < 1 for size in self.sizes)
            or list(self.sizes) != sorted(set(self.sizes))
        ):
            raise InvalidArgument(f"sizes are {self.sizes}", action="pass whole numbers >= 1 that grow")
        if any(size < 257 for size in self.vocabularies):
            raise InvalidArgument(
                f"vocabularies are {self.vocabularies}", action="pass 257 or more: every byte, and the end"
            )
        check_minimum(self, repeats=1, learning=0, seed=0, resampling=0)
        check_positive(self, "time_limit")
        if self.predicate < 0:
            raise InvalidArgument(f"predicate is {self.predicate}", action="pass milliseconds, or 0")
        for given, what in ((self.genlm, "genlm-control"), (self.resampling, "resampling")):
            if given and self.model != "n-gram":
                option = what.partition("-")[0]
                raise InvalidArgument(
                    f"{what} is measured on n-gram models only", action=f"leave --{option} or --model out"
                )
