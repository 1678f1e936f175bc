"""A whole measurement: prepare, run every engine, write rows, summary, tables and plot."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from constrained.evaluate.harness.results import RowWriter, RunRecord, check_no_results, make_folder
from constrained.evaluate.harness.settings import (
    Progress,
    check_distinct,
    check_minimum,
    check_positive,
    no_progress,
)
from constrained.evaluate.harness.tables import ReportTable
from constrained.evaluate.masks import agreement, report, supervise, workload
from constrained.evaluate.masks.engines import DEFAULT_ENGINES, check_engine
from constrained.evaluate.masks.rows import MaskBenchRow
from constrained.evaluate.masks.summary import EngineSummary, common_ids, summarise

SUMMARY = "summary.json"
PAGE = "summary.md"
PLOT = "plot.png"
DIFFERENCES = "differences.jsonl"


@dataclass(frozen=True, slots=True)
class MaskBenchSettings:
    """What to measure.

    Attributes:
        data: MaskBench data, JSON lines, plain or gzipped.
        sample: schemas to draw; 0: all.
        seed: of the draw.
        engines: names out of `ENGINES`, or ``module:Class``.
        vocabulary: ``tekken``, or a Hugging Face tokenizer by name or folder.
        time_limit: seconds a schema may take an engine.
        memory_limit: GiB its process may take.
        warm: also compile and replay each schema a second time, and replay it with the compiled schema kept.
        batch: states in one call, where the batch case is measured; 0: it is not.
        threads: of each engine.
        compare: also compare every mask with that of the first engine; slow, for small samples.

    Raises:
        InvalidArgument: a value is out of range, or an engine unknown.
    """

    data: Path
    sample: int = 600
    seed: int = 0
    engines: tuple[str, ...] = DEFAULT_ENGINES
    vocabulary: str = workload.TEKKEN
    time_limit: float = 120.0
    memory_limit: float = 8.0
    warm: bool = False
    batch: int = 0
    threads: int = 1
    compare: bool = False

    def __post_init__(self) -> None:
        check_distinct(self.engines, "engine")
        for name in self.engines:
            check_engine(name)
        check_minimum(self, sample=0, batch=0, threads=1)
        check_positive(self, "time_limit", "memory_limit")


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


def run(settings: MaskBenchSettings, out: Path, progress: Progress = no_progress) -> MaskBenchResults:
    """Measures; writes each row as soon as it is known, then summary, page and plot.

    Args:
        settings: what to measure.
        out: folder for the results; made if it does not exist.
        progress: shows progress.

    Raises:
        InvalidArgument: the data cannot be read, or the folder already contains results.
        ModelError: there is no such vocabulary.
    """
    check_no_results(out)
    record = RunRecord(settings)
    drawn = workload.sample(settings.data, settings.sample, settings.seed)
    progress("reading the vocabulary", 0, 0)
    vocabulary, tokens = workload.load_bench_vocabulary(settings.vocabulary)
    cases = []
    for i, row in enumerate(drawn):
        progress("encoding", i, len(drawn))
        cases.append(workload.prepare(row, vocabulary))
    make_folder(out)
    with tempfile.TemporaryDirectory() as folder:
        measurement = _Measurement(settings, out, Path(folder), cases, tokens)
        for engine in settings.engines:
            measurement.measure(engine, progress)
        differences = measurement.differences() if settings.compare else {}
    facts = record.facts() | {
        "data": settings.data.name,
        "cases": len(cases),
        "unencodable": sum(case.unencodable for case in cases),
        "vocabulary_size": tokens.size,
        "differences": differences,
    }
    return _conclude(measurement, facts, differences)


class _Measurement:
    """The engines of one run, and what they have given so far."""

    def __init__(
        self,
        settings: MaskBenchSettings,
        out: Path,
        folder: Path,
        cases: list[workload.SchemaCase],
        tokens: workload.VocabularyData,
    ) -> None:
        self.settings = settings
        self.out = out
        self.folder = folder
        self.cases = cases
        self.tokens = tokens
        self.tokens_file = folder / "tokens"
        tokens.save(self.tokens_file)
        self.rows: list[MaskBenchRow] = []
        self.started: dict[str, supervise.WorkerInfo] = {}
        self.unavailable: dict[str, str] = {}

    def measure(self, engine: str, progress: Progress) -> None:
        """All cases with one engine."""
        settings = self.settings
        limits = supervise.WorkerLimits(
            settings.time_limit, int(settings.memory_limit * 2**30), threads=settings.threads
        )
        log = self.out / f"{engine.replace(':', '.')}.log"
        numbers = {id(case): i for i, case in enumerate(self.cases)}

        def start() -> supervise.EngineWorker:
            worker = supervise.EngineWorker(engine, self.tokens_file, limits, log)
            self.started.setdefault(engine, worker.ready)
            return worker

        def options(case: workload.SchemaCase) -> dict[str, Any]:
            kept = agreement.mask_file(self.folder, engine, numbers[id(case)])
            return {
                "warm": settings.warm,
                "batch": settings.batch,
                "keep_masks": str(kept) if settings.compare else "",
            }

        progress(engine, 0, len(self.cases))
        try:
            with RowWriter(self.out) as writer:
                for done, row in enumerate(supervise.run_cases(engine, self.cases, start, options), 1):
                    self.rows.append(row)
                    writer.write(row)
                    progress(engine, done, len(self.cases))
        except supervise.EngineUnavailable as error:
            self.unavailable[engine] = str(error)
        if log.exists() and not log.stat().st_size:
            log.unlink()

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

    def summary(self, engine: str, only: set[str] | None = None) -> EngineSummary:
        """An engine's rows with what is known about the engine itself."""
        summary = summarise(engine, self.rows, only)
        summary.unavailable = self.unavailable.get(engine, "")
        if ready := self.started.get(engine):
            summary.version = ready.version
            summary.setup_seconds, summary.setup_bytes = ready.seconds, ready.bytes
        return summary


def _conclude(
    measurement: _Measurement, facts: dict[str, Any], differences: dict[str, str]
) -> MaskBenchResults:
    """Writes what is made from the rows."""
    out, rows = measurement.out, measurement.rows
    engines = [measurement.summary(name) for name in measurement.settings.engines]
    measured = [one.engine for one in engines if not one.unavailable]
    tables: list[ReportTable] = []
    if measured:
        shared = common_ids(rows, measured)
        tables = report.sections(
            [one for one in engines if not one.unavailable],
            [measurement.summary(name, shared) for name in measured],
        )
        facts["common"] = [asdict(measurement.summary(name, shared)) for name in measured]
    facts["engines"] = [asdict(one) for one in engines]
    (out / SUMMARY).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / PAGE).write_text(report.markdown(tables, facts), encoding="utf-8")
    plotted = bool(measured) and report.plot(rows, measured, out / PLOT)
    return MaskBenchResults(tables, engines, differences, plotted)
