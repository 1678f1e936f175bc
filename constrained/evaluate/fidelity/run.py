"""A whole measurement: write down the laws, draw with every sampler, write rows, summary, tables and plot."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from constrained.errors import InvalidArgument, ModelError
from constrained.evaluate.fidelity import competitors, cost_model, report, retokenized, samplers, tasks
from constrained.evaluate.fidelity.measure import TaskMeasurement
from constrained.evaluate.masks import machine, workload
from constrained.evaluate.masks.report import ReportTable
from constrained.testing.exact_distribution import TooManySequences

ROWS = "rows.jsonl"
SUMMARY = "summary.json"
PAGE = "summary.md"
PLOT = "plot.png"

_LEARNING = ("cars", "rejection")
_BLOCK = 10

Progress = Callable[[str, int, int], None]
"""Is told what goes on, how much of it is done, and how much there is."""


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
        budget: beginnings that may be visited to write down a law.
        learning: texts over which the falling price of CARS is shown; 0 for none.
        data: MaskBench data for the questions of AWRS; None to leave them out.
        schemas: how many of them.
        vocabularies: sizes of parts of the tekken vocabulary in which the questions are asked as well, ascending.
        predicate: milliseconds of the dear predicate; 0 to leave it out.
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
    vocabularies: tuple[int, ...] = ()
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
        if any(size < 257 for size in self.vocabularies):
            raise InvalidArgument(
                f"vocabularies are {self.vocabularies}", action="pass 257 or more: every byte, and the end"
            )
        for value, least, what in (
            (self.repeats, 1, "repeats"),
            (self.learning, 0, "learning"),
            (self.seed, 0, "seed"),
        ):
            if value < least:
                raise InvalidArgument(f"{what} is {value}; the least is {least}")
        if self.genlm and self.model != "n-gram":
            raise InvalidArgument(
                "genlm-control is measured on n-gram models only", action="leave --genlm or --model out"
            )
        if not self.time_limit > 0 or self.predicate < 0:
            raise InvalidArgument(
                "a limit of nothing leaves nothing to measure", action="give a positive limit"
            )


@dataclass(frozen=True, slots=True)
class FidelityResults:
    """What a measurement found; everything is also in its folder.

    Attributes:
        sections: the tables.
        measurements: what they are made from.
        skipped: what was not measured, and why.
        plotted: whether there is a plot.
    """

    sections: list[ReportTable]
    measurements: report.FidelityData
    skipped: dict[str, str]
    plotted: bool


def run(
    settings: FidelitySettings, out: Path, progress: Progress = lambda what, done, total: None
) -> FidelityResults:
    """Measures, and writes rows as they come, then summary, page and plot to a folder.

    Raises:
        InvalidArgument: the folder already holds results or cannot be written, or the data cannot be read.
        ModelError: there is no such model.
    """
    if (out / ROWS).exists():
        raise InvalidArgument(f"{str(out)!r} already holds results", action="name another folder with --out")
    begun, about = _now(), machine.describe()
    own = settings.model == "n-gram"
    chosen = tasks.select_tasks(settings.tasks)
    names = samplers.check_samplers(settings.samplers)
    skipped: dict[str, str] = {}
    reads_prompts: Any = None
    if not own or settings.data is not None or settings.predicate:
        from constrained.models import load

        progress("loading the model", 0, 0)
        reads_prompts = load() if own or settings.model == "bundled" else load(settings.model)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"{str(out)!r} cannot be written: {error.strerror}", action="check --out"
        ) from None
    others: list[Any] = []
    if settings.vocabularies and settings.data is not None:
        try:
            tekken, _ = workload.load_bench_vocabulary(workload.TEKKEN)
            others = [retokenized.vocabulary_prefix(tekken.tokens, size) for size in settings.vocabularies]
        except ModelError as error:
            skipped["other vocabularies"] = str(error)
    if settings.genlm and own:
        try:
            about[competitors.GENLM] = competitors.genlm_version(settings.genlm)
        except competitors.GenlmUnavailable as error:
            skipped[competitors.GENLM] = str(error)
    found = report.FidelityData()
    with (out / ROWS).open("w", encoding="utf-8") as file:

        def keep(kind: str, row: Any, into: list[Any]) -> None:
            into.append(row)
            file.write(json.dumps({"kind": kind} | row.to_json()) + "\n")
            file.flush()

        for task in chosen:
            progress(task.name, 0, len(names))
            try:
                measured = TaskMeasurement(task, None if own else reads_prompts, settings.budget)
            except TooManySequences as error:
                skipped[task.name] = str(error)
                continue
            keep("law", measured.distribution(settings.sizes), found.distributions)
            for done, name in enumerate(names):
                for row in measured.sets(
                    name, settings.sizes, settings.repeats, settings.seed, settings.time_limit
                ):
                    keep("set", row, found.rows)
                progress(task.name, done + 1, len(names))
            if competitors.GENLM in about:
                try:
                    for row in competitors.genlm_rows(measured, settings, str(settings.genlm)):
                        keep("set", row, found.rows)
                except competitors.GenlmUnavailable as error:
                    skipped[f"{competitors.GENLM} on {task.name}"] = str(error)
            for name in _LEARNING:
                if settings.learning and name in names:
                    for block in measured.learning(
                        name, settings.learning, _BLOCK, settings.seed, settings.time_limit
                    ):
                        keep("block", block, found.blocks)
        if settings.data is not None:
            progress("questions of awrs", 0, 0)
            for one in cost_model.count_checks(
                reads_prompts, settings.data, settings.schemas, settings.seed, others
            ):
                keep("questions", one, found.questions)
        if settings.predicate:
            progress("price of a predicate", 0, 0)
            found.price = cost_model.measure_predicate_cost(reads_prompts, settings.predicate, settings.seed)
            keep("price", found.price, [])
    facts = {
        "machine": about,
        "settings": asdict(settings) | {"data": settings.data.name if settings.data else None},
        "begun": begun,
        "ended": _now(),
        "command": shlex.join(["constrained", *sys.argv[1:]]),
        "skipped": skipped,
    }
    made = report.sections(found)
    (out / PAGE).write_text(report.markdown(made, facts), encoding="utf-8")
    (out / SUMMARY).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return FidelityResults(made, found, skipped, report.plot(found, out / PLOT))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
