"""A whole measurement: prepare, run every engine, write rows, summary, tables and plot."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from constrained.bench.harness.results import RowWriter, RunRecord, read_rows, settle_folder, write_facts
from constrained.bench.harness.settings import Progress, data_file, measured, no_progress
from constrained.bench.harness.tables import ReportTable
from constrained.bench.masks import agreement, report, supervise, workload
from constrained.bench.masks.rows import COLD, NOT_RUN, MaskBenchRow
from constrained.bench.masks.settings import MaskBenchSettings
from constrained.bench.masks.summary import EngineSummary, ran_ids, summarise, times
from constrained.errors import InvalidArgument

SUMMARY = "summary.json"
PAGE = "summary.md"
PLOT = "plot.png"
DIFFERENCES = "differences.jsonl"

TURN = 100
"""Schemas that an engine goes through before the next engine's turn: a run that is ended early has rows of all engines,
and a machine that grows busy is busy for all of them."""


@dataclass(frozen=True, slots=True)
class MaskBenchResults:
    """What a measurement found; everything is also in its folder.

    Attributes:
        sections: the tables.
        engines: the summaries they are made from.
        differences: for each engine but the first, how its masks compare with the first's.
        plotted: whether there is a plot.
    """

    sections: list[ReportTable]
    engines: list[EngineSummary]
    differences: dict[str, str]
    plotted: bool


def run(
    settings: MaskBenchSettings, out: Path, progress: Progress = no_progress, *, resume: bool = False
) -> MaskBenchResults:
    """Measures; writes each row as soon as it is known, then summary, page and plot.

    Args:
        settings: what to measure.
        out: folder for the results; made if it does not exist.
        progress: shows progress.
        resume: go on in a folder that holds rows: measures what is not there yet.

    Raises:
        InvalidArgument: the data cannot be read, or the folder holds rows and is not to be resumed, or holds rows of
            other settings or of another version of an engine.
        ModelError: there is no such vocabulary.
    """
    if resume and settings.compare:
        raise InvalidArgument(
            "masks are not kept between runs, so those of a resumed run cannot be compared",
            action="run it at once, into a new folder",
        )
    data = data_file(settings.data)
    settings = replace(settings, data=data)
    record = RunRecord(settings)
    drawn = workload.sample(data, settings.sample, settings.seed)
    settled = settle_folder(out, measured(settings, "engines", "sample"), resume=resume)
    progress("reading the vocabulary", 0, 0)
    vocabulary, tokens = workload.load_bench_vocabulary(settings.vocabulary)
    cases = []
    for i, row in enumerate(drawn):
        progress("encoding", i, len(drawn))
        cases.append(workload.prepare(row, vocabulary))
    with tempfile.TemporaryDirectory() as folder:
        measurement = _Measurement(settings, out, Path(folder), cases, tokens, settled)
        measurement.run(progress)
        differences = measurement.differences() if settings.compare else {}
    facts = record.facts() | {
        "data": data.name,
        "cases": len(cases),
        "unencodable": sum(case.unencodable for case in cases),
        "vocabulary_size": tokens.size,
        "differences": differences,
    }
    return _conclude(measurement, facts, differences)


class _Measurement:
    """The engines of one run.

    Attributes:
        started: engine -> what its first worker said, in this run or the one that it resumes.
        unavailable: engine -> why it could not be started.
    """

    def __init__(
        self,
        settings: MaskBenchSettings,
        out: Path,
        folder: Path,
        cases: list[workload.SchemaCase],
        tokens: workload.VocabularyData,
        settled: dict[str, Any],
    ) -> None:
        self.settings = settings
        self.out = out
        self.folder = folder
        self.cases = cases
        self.tokens = tokens
        self.tokens_file = folder / "tokens"
        tokens.save(self.tokens_file)
        self._settled = settled
        self.started = {name: supervise.WorkerInfo(**one) for name, one in settled["versions"].items()}
        self.unavailable: dict[str, str] = {}

    def run(self, progress: Progress) -> None:
        """All cases that have no row yet, the engines in turn, `TURN` cases each."""
        known = {(row["engine"], row["id"]) for row in read_rows(self.out) if row["outcome"] != NOT_RUN}
        with contextlib.ExitStack() as stack, RowWriter(self.out) as writer:
            streams: dict[str, Generator[MaskBenchRow, None, None]] = {}
            done = {}
            for engine in self.settings.engines:
                left = [case for case in self.cases if (engine, case.id) not in known]
                done[engine] = len(self.cases) - len(left)
                if left:
                    stream = supervise.run_cases(engine, left, self._starter(engine), self._options(engine))
                    streams[engine] = stack.enter_context(contextlib.closing(stream))
            while streams:
                for engine in list(streams):
                    progress(engine, done[engine], len(self.cases))
                    before = done[engine]
                    try:
                        for row in islice(streams[engine], TURN):
                            writer.write(row)
                            done[engine] += 1
                            progress(engine, done[engine], len(self.cases))
                    except supervise.EngineUnavailable as error:
                        self.unavailable[engine] = str(error)
                    if done[engine] < before + TURN:
                        del streams[engine]
        for log in map(self._log, self.settings.engines):
            if log.exists() and not log.stat().st_size:
                log.unlink()

    def _log(self, engine: str) -> Path:
        return self.out / f"{engine.replace(':', '.')}.log"

    def _starter(self, engine: str) -> Callable[[], supervise.EngineWorker]:
        settings = self.settings
        limits = supervise.WorkerLimits(
            settings.time_limit, int(settings.memory_limit * 2**30), threads=settings.threads
        )

        def start() -> supervise.EngineWorker:
            worker = supervise.EngineWorker(engine, self.tokens_file, limits, self._log(engine))
            if engine not in self.started:
                self.started[engine] = worker.ready
                self._settled["versions"][engine] = asdict(worker.ready)  # a run may be killed at any time
                write_facts(self.out, self._settled)
            known = self.started[engine]
            if known.version != worker.ready.version:
                worker.close()
                raise InvalidArgument(
                    f"the rows are of {engine} {known.version}, and {worker.ready.version} is installed",
                    action="name another folder with --out",
                )
            return worker

        return start

    def _options(self, engine: str) -> Callable[[workload.SchemaCase], dict[str, Any]]:
        settings = self.settings
        numbers = {id(case): i for i, case in enumerate(self.cases)}

        def options(case: workload.SchemaCase) -> dict[str, Any]:
            kept = agreement.mask_file(self.folder, engine, numbers[id(case)])
            return {
                "warm": settings.warm,
                "batch": settings.batch,
                "keep_masks": str(kept) if settings.compare else "",
            }

        return options

    def differences(self) -> dict[str, str]:
        """Every engine's masks against those of the first that ran, in a line each; all differences go to a file."""
        reference, *others = [one for one in self.settings.engines if one not in self.unavailable] or [""]
        found = {}
        with (self.out / DIFFERENCES).open("w", encoding="utf-8") as file:
            for engine in others:
                verdicts: Counter[str] = Counter()
                for verdict, difference in agreement.compare(
                    self.folder, self.cases, self.tokens, engine, reference
                ):
                    verdicts[verdict] += 1
                    if difference is not None:
                        file.write(json.dumps(asdict(difference), ensure_ascii=False) + "\n")
                found[engine] = agreement.format_verdicts(verdicts)
        return found

    def rows(self, engine: str) -> list[MaskBenchRow]:
        """An engine's rows of this run's cases, read from the folder: those of all engines together may take gigabytes."""
        wanted = {case.id for case in self.cases}
        rows = {
            row["id"]: row for row in read_rows(self.out) if row["engine"] == engine and row["id"] in wanted
        }
        return [MaskBenchRow.from_json(row) for row in rows.values()]

    def summary(
        self, engine: str, rows: Sequence[MaskBenchRow], only: Collection[str] | None = None
    ) -> EngineSummary:
        """An engine's rows with what is known about the engine itself."""
        summary = summarise(engine, rows, only)
        summary.unavailable = self.unavailable.get(engine, "")
        if ready := self.started.get(engine):
            summary.version = ready.version
            summary.setup_seconds, summary.setup_bytes = ready.seconds, ready.bytes
        return summary


def _conclude(
    measurement: _Measurement, facts: dict[str, Any], differences: dict[str, str]
) -> MaskBenchResults:
    """Writes what is made from the rows."""
    out = measurement.out
    engines: list[EngineSummary] = []
    ran: dict[str, set[str]] = {}
    found: dict[str, dict[str, list[float]]] = {}
    for name in measurement.settings.engines:
        rows = measurement.rows(name)
        engines.append(measurement.summary(name, rows))
        if not engines[-1].unavailable:
            ran[name] = ran_ids(name, rows)
            found[name] = times(row.passes[COLD] for row in rows if COLD in row.passes)
    tables: list[ReportTable] = []
    if ran:
        shared = set.intersection(*ran.values())
        common = [measurement.summary(name, measurement.rows(name), shared) for name in ran]
        tables = report.sections([one for one in engines if one.engine in ran], common)
        facts["common"] = [asdict(one) for one in common]
    facts["engines"] = [asdict(one) for one in engines]
    (out / SUMMARY).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / PAGE).write_text(report.markdown(tables, facts), encoding="utf-8")
    plotted = bool(ran) and report.plot(found, out / PLOT)
    return MaskBenchResults(tables, engines, differences, plotted)
