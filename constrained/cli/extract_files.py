"""`constrained extract FILES --out RESULTS`: many documents, one model, results that survive a kill."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import shlex
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from constrained.cli import generation
from constrained.cli.exit_status import FAILED_DOCUMENTS, CommandFailed, emit
from constrained.cli.extraction_options import ExtractionOptions, FilesOptions
from constrained.cli.generation import StatusCallback, status_line
from constrained.cli.options import DecodingOptions, Verbosity

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.extraction.files.records import Record
    from constrained.extraction.files.results import ResultFile, ResultRow

_WINDOW = 60.0
"""Seconds over which the rate is measured."""

_LINE_SECONDS = 10.0
"""Seconds between two lines of progress where standard error is not a terminal."""


class _NoFile:
    """Results as lines on standard output, or nowhere."""

    def __init__(self, *, printed: bool) -> None:
        self.done: set[str] = set()
        self.errors: Counter[str] = Counter()
        self._stream = sys.stdout if printed else None

    def write(self, row: ResultRow) -> None:
        if self._stream is not None:
            with contextlib.redirect_stdout(self._stream):
                emit(row.line())
        if row.error_type is not None:
            self.errors[row.error_type] += 1
        self.done.add(row.id)

    def finish(self) -> None:
        pass


@dataclass(frozen=True)
class FilesRun:
    """A run over files of documents.

    Attributes:
        inputs: files and patterns, as of `constrained.read_documents`.
        constraint: of the values.
        files: where results go, and how documents are read; without `out`, only to `more`.
        extraction: what the model is told.
        decoding: the model, its sampler and their settings.
        verbosity: what is shown meanwhile.
        quiet: do not print the number of results at the end.
        more: further columns of each result, by name; each is called with the result when it is there.
    """

    inputs: Sequence[str]
    constraint: Constraint
    files: FilesOptions
    extraction: ExtractionOptions
    decoding: DecodingOptions
    verbosity: Verbosity
    quiet: bool
    more: Mapping[str, Callable[[ResultRow], Any]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the further columns of results."""
        return (*self.files.detail_names(), *self.more)

    def start(self) -> None:
        """Extracts a value from each document; a file that cannot be read is reported, and the others are read.

        Raises:
            CommandFailed: not every document has a value, or not every file could be read.
            ConstrainedError: as `read_documents`, `load` and `Extractor`.
        """
        self.files.check()
        self._check_engine()
        with contextlib.ExitStack() as stack:
            results: ResultFile | _NoFile = _NoFile(printed=self.files.out == "-")
            show = stack.enter_context(status_line(shown=self.verbosity.progress))
            results, lost, unread = self._run(results, show, stack)
        if lost:
            self._say(f"{lost} documents have no result: their actors were lost; --resume reads them again")
        if unread:
            self._say(
                f"{unread} of the files could not be read: see above; --resume reads them when they can be"
            )
        if results.errors or lost or unread:
            raise CommandFailed(FAILED_DOCUMENTS)

    def _run(
        self, results: ResultFile | _NoFile, show: StatusCallback, stack: contextlib.ExitStack
    ) -> tuple[ResultFile | _NoFile, int, int]:
        from constrained.extraction.files.records import (
            STDIN,
            Columns,
            check_files,
            expand_inputs,
            unique_records,
        )

        show("reading the constraint")
        _ = self.constraint.grammar  # errors in it come before the model is loaded
        names = expand_inputs(self.inputs)
        if self.files.out not in (None, "-"):
            results = stack.enter_context(self._result_file())
        show("checking the documents")
        columns = Columns(self.files.text_column, self.files.id_column)
        # Standard input can be read only once: its faults come when they are met.
        checked = check_files(names, columns)
        if checked.faults and not checked.readable:
            raise checked.faults[0]
        names, known = checked.readable, checked.documents
        for fault in checked.faults:
            print(f"error: {fault}", file=sys.stderr, flush=True)
        before = frozenset(results.done)
        taken = 0

        def unread() -> Iterator[Record]:
            nonlocal taken
            for record in unique_records(names, columns):
                if record.id not in before:
                    taken += 1
                    yield record

        left = unread()
        progress = _Progress(None if STDIN in names else known, results, show, self.verbosity)
        try:
            if (first := next(left, None)) is not None:
                show("loading the model")
                rows = self._ray_rows if self.files.backend == "ray" else self._local_rows
                for row in rows(itertools.chain([first], left), progress.begin):
                    results.write(row.with_columns({name: make(row) for name, make in self.more.items()}))
                    progress.count()
            results.finish()
        except BaseException:
            stack.close()  # the status line is gone, and the results are on the disk
            if results.done:
                self._say(f"{progress.state(self.files.out)}; to go on: {_resume_command()}")
            raise
        self._say(progress.summary(self.files.out))
        return results, taken - progress.counted, len(checked.faults)

    def _check_engine(self) -> None:
        from constrained.extraction.cluster.dataset import check_engine

        files, decoding = self.files, self.decoding
        check_engine(
            files.engine,
            decoding.model,
            device=decoding.device,
            options=files.engine_arguments(),
            details=files.detail_names(),
        )

    def settings(self) -> dict[str, Any]:
        """What the values depend on, as in the file beside the results.

        Raises:
            ConstrainedError: an option is wrong.
        """
        from constrained.extraction.cluster.ray_actor import engine_settings
        from constrained.extraction.files.results import run_settings
        from constrained.sampling import resolve_sampler

        files, decoding = self.files, self.decoding
        options = {
            **decoding.settings(),
            "on_limit": decoding.on_limit,
            "details": ",".join(files.detail_names()) or None,
            **engine_settings(files.engine, files.engine_arguments()),
            **self.extraction.arguments(),
        }
        if decoding.sampler is not None:
            resolve_sampler(decoding.sampler)  # a wrong name is an error before anything is written
            options["sampler"] = decoding.sampler
        return run_settings(decoding.model, self.constraint, options)

    def _result_file(self) -> ResultFile:
        from constrained.extraction.files.results import ResultFile

        files = self.files
        assert files.out is not None
        return ResultFile(
            files.out,
            self.settings(),
            errors=None if files.errors is None else str(files.errors),
            resume=files.resume,
            retry_errors=files.retry_errors,
            details=self.columns,
        )

    def _extractor_arguments(self) -> dict[str, Any]:
        return {**self.decoding.extractor_arguments(), **self.extraction.arguments()}

    def _call_settings(self) -> dict[str, Any]:
        settings = {name: value for name, value in self.decoding.settings().items() if value is not None}
        return {"batch_size": self.files.batch_size, **settings}

    def _local_rows(self, records: Iterator[Record], begin: Callable[[], None]) -> Iterator[ResultRow]:
        from constrained.extraction import Document, Extractor
        from constrained.extraction.files.results import result_row

        decoding, watched = self.decoding, self.verbosity.progress
        model: Any
        if self.files.engine == "vllm":
            from constrained.extraction.cluster.vllm_engine import VllmModel

            generation.silence_libraries(bars=watched)
            model = VllmModel(decoding.model, **self.files.engine_arguments())
        else:
            model = generation.load_model(decoding.model, decoding.device, watched=watched)
        extractor: Extractor[Any] = Extractor(model, self.constraint, **self._extractor_arguments())
        begin()
        documents = (Document(record.id, record.text) for record in records)
        for extraction in extractor.many(documents, **self._call_settings()):
            yield result_row(extraction, is_json=self.constraint.is_json, details=self.files.detail_names())

    def _ray_rows(self, records: Iterator[Record], begin: Callable[[], None]) -> Iterator[ResultRow]:
        from constrained.extraction.cluster import dataset
        from constrained.extraction.cluster.ray_actor import ExtractionJob
        from constrained.extraction.cluster.ray_cluster import connected
        from constrained.extraction.files.records import Columns
        from constrained.extraction.files.results import ResultRow

        files = self.files
        pool = dataset.ActorPool(
            files.actors or 1,
            1 if files.cpus_per_actor is None else files.cpus_per_actor,
            files.gpus_per_actor or 0,
        )
        job = ExtractionJob(
            self.decoding.model,
            self.constraint,
            Columns("text", "id"),
            device=self.decoding.device,
            engine=files.engine,
            engine_options=files.engine_arguments(),
            extractor=self._extractor_arguments(),
            settings=self._call_settings(),
            details=self.files.detail_names(),
            collect_failures=True,
        )
        cores = math.ceil(pool.bounds[1] * pool.cpus)
        with connected(files.address, cores=cores):
            documents = dataset.records_dataset(records, dataset.BATCHES_PER_BLOCK * files.batch_size)
            begin()
            for row in dataset.iterate_results(documents, job, pool):
                del row["failure"]
                cells = {name: row.pop(name) for name in job.details}
                more = {name: None if cell is None else json.loads(cell) for name, cell in cells.items()}
                yield ResultRow(**row, more=more)

    def _say(self, message: str) -> None:
        if not self.quiet and self.files.out not in (None, "-"):
            print(message, file=sys.stderr, flush=True)


class _Progress:
    """How far a run is, how fast, and how long it still takes.

    Attributes:
        counted: results of this run.
    """

    def __init__(
        self, total: int | None, results: ResultFile | _NoFile, show: StatusCallback, verbosity: Verbosity
    ) -> None:
        self.counted = 0
        self._total = total
        self._results = results
        self._show = show
        self._lines = verbosity.statistics and not verbosity.progress
        self._past: deque[tuple[float, int]] = deque()
        self.begin()

    def begin(self) -> None:
        """The model is loaded: seconds count from here."""
        self._show(f"{self._done()}; reading")
        self._start = self._line = time.monotonic()
        self._past = deque([(self._start, 0)])

    def count(self) -> None:
        """One more result was written."""
        self.counted += 1
        now = time.monotonic()
        if now - self._past[-1][0] >= 1:
            self._past.append((now, self.counted))
            while now - self._past[0][0] > _WINDOW:
                self._past.popleft()
        line = self._text(now)
        self._show(line)
        if self._lines and now - self._line >= _LINE_SECONDS:
            self._line = now
            print(line, file=sys.stderr, flush=True)

    def state(self, out: str | None) -> str:
        """How many results there are."""
        return f"{self._done()} have a result in {out}"

    def summary(self, out: str | None) -> str:
        """The line at the end of a run."""
        failed = self._errors()
        errors = f", {failed}," if failed else ""
        seconds = time.monotonic() - self._start
        rate = f"; {self.counted / seconds:.1f} a second" if self.counted else ""
        return f"{self._done()} have a result{errors} in {out}{rate}"

    def _done(self) -> str:
        done = len(self._results.done)
        return f"{done:,} documents" if self._total is None else f"{done:,} of {self._total:,} documents"

    def _text(self, now: float) -> str:
        then, before = self._past[0]
        rate = (self.counted - before) / max(now - then, 1e-3)
        parts = [self._done(), f"{rate:.1f} a second"]
        if self._total is not None and rate > 0:
            parts.append(f"{_duration((self._total - len(self._results.done)) / rate)} left")
        return ", ".join(filter(None, (*parts, self._errors())))

    def _errors(self) -> str:
        return ", ".join(f"{count:,} {kind}" for kind, count in self._results.errors.most_common())


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _resume_command() -> str:
    arguments = sys.argv[1:]
    more = [] if "--resume" in arguments else ["--resume"]
    return shlex.join(["constrained", *arguments, *more])
