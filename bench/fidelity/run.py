"""Runs `bench fidelity`: exact distributions, sets of samples with every sampler, rows, tables and plot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.bench.fidelity import (
    competitors,
    report,
    tasks,
)
from constrained.bench.fidelity.exact_distribution import TooManySequences
from constrained.bench.fidelity.measure import TaskMeasurement
from constrained.bench.fidelity.predicate_cost import measure_predicate_cost
from constrained.bench.fidelity.rows import FidelityRow
from constrained.bench.fidelity.samplers import SAMPLER_ENTRIES
from constrained.bench.fidelity.settings import FidelitySettings
from constrained.bench.fidelity.tasks import FidelityTask
from constrained.bench.harness.results import RowWriter, RunRecord, check_no_results, make_folder
from constrained.bench.harness.settings import Progress, check_names, no_progress
from constrained.bench.harness.tables import ReportTable
from constrained.errors import InvalidArgument

SUMMARY = "summary.json"
PAGE = "summary.md"
PLOT = "plot.png"

_LEARNING = ("cars", "rejection")
_BLOCK = 10


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


def run(settings: FidelitySettings, out: Path, progress: Progress = no_progress) -> FidelityResults:
    """Measures; writes each row as soon as it is known, then summary, page and plot.

    Raises:
        InvalidArgument: the folder already contains results or cannot be written, the data cannot be read, or
            genlm-control is asked for and does not answer.
        ModelError: there is no such model.
    """
    check_no_results(out)
    record = RunRecord(settings)
    measurement = _FidelityRun(settings, record, progress)
    make_folder(out)
    with RowWriter(out) as writer:
        measurement.measure(writer)
    facts = record.facts() | {"skipped": measurement.skipped}
    data, skipped = measurement.data, measurement.skipped
    tables = report.sections(data)
    (out / PAGE).write_text(report.markdown(tables, facts), encoding="utf-8")
    (out / SUMMARY).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return FidelityResults(tables, data, skipped, report.plot(data, out / PLOT))


class _FidelityRun:
    """One run: its model, and the rows so far.

    Attributes:
        data: the rows.
        skipped: what was not measured -> why.
    """

    def __init__(self, settings: FidelitySettings, record: RunRecord, progress: Progress) -> None:
        self.data = report.FidelityData()
        self.skipped: dict[str, str] = {}
        self._settings = settings
        self._record = record
        self._progress = progress
        self._tasks = tasks.select_tasks(settings.tasks)
        check_names(settings.samplers, SAMPLER_ENTRIES)
        self._samplers = settings.samplers or tuple(SAMPLER_ENTRIES)
        self._ngram = settings.model == "n-gram"
        self._has_genlm = self._find_genlm()
        self._model: Any = None
        if not self._ngram or settings.predicate:
            from constrained.models import load

            progress("loading the model", 0, 0)
            self._model = load() if self._ngram else load(settings.model)

    def measure(self, writer: RowWriter) -> None:
        """Measures everything."""
        for task in self._tasks:
            self._measure_task(task, writer)
        settings, data = self._settings, self.data
        if settings.predicate:
            self._progress("cost of a predicate", 0, 0)
            data.price = measure_predicate_cost(self._model, settings.predicate, settings.seed)
            writer.write(data.price, kind="price", ratio=data.price.ratio)

    def _measure_task(self, task: FidelityTask, writer: RowWriter) -> None:
        settings, data, progress = self._settings, self.data, self._progress
        progress(task.name, 0, len(self._samplers))
        try:
            measured = TaskMeasurement(task, None if self._ngram else self._model, settings.budget)
        except TooManySequences as error:
            self.skipped[task.name] = str(error)
            return
        distribution = measured.distribution(settings.sizes)
        data.distributions.append(distribution)
        writer.write(distribution, kind="distribution")

        def keep(row: FidelityRow) -> None:
            data.rows.append(row)
            writer.write(row, kind="set")

        for done, name in enumerate(self._samplers, 1):
            for row in measured.sets(
                name, settings.sizes, settings.repeats, settings.seed, settings.time_limit
            ):
                keep(row)
            progress(task.name, done, len(self._samplers))
        if self._has_genlm:
            try:
                for row in competitors.genlm_rows(measured, settings, str(settings.genlm)):
                    keep(row)
            except competitors.GenlmUnavailable as error:
                self.skipped[f"{competitors.GENLM} on {task.name}"] = str(error)
        for name in _LEARNING:
            if settings.learning and name in self._samplers:
                for block in measured.learning(
                    name, settings.learning, _BLOCK, settings.seed, settings.time_limit
                ):
                    data.blocks.append(block)
                    writer.write(block, kind="block")

    def _find_genlm(self) -> bool:
        if not (self._settings.genlm and self._ngram):
            return False
        try:
            self._record.machine[competitors.GENLM] = competitors.genlm_version(self._settings.genlm)
        except competitors.GenlmUnavailable as error:
            raise InvalidArgument(
                f"{competitors.GENLM} cannot be measured with {self._settings.genlm}: {error}",
                action=f"pass a Python interpreter that has {competitors.GENLM}, or leave --genlm out",
            ) from None
        return True
