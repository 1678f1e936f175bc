"""What runs in an actor of a Ray cluster: an extractor that holds its model, and blocks of documents."""

from __future__ import annotations

import contextlib
import json
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from types import ModuleType
from typing import Any

from constrained.errors import ConstrainedError, WorkerError
from constrained.extraction.files.records import Columns, Row, make_record
from constrained.extraction.files.results import ResultRow, result_row

ENGINES = ("builtin", "vllm")
"""What can generate in an actor: a model of `load`, or vLLM."""

_OURS = ("constrained", "__main__")


@dataclass(frozen=True)
class ExtractionJob:
    """What an actor does, in a form that can be sent to it.

    Attributes:
        model: name or folder of the model, a function that loads one, or None for the bundled one.
        constraint: the type, schema or constraint.
        columns: members of a row that are read.
        device: of the model; None: the actor's GPU, if it has one.
        engine: what generates, of `ENGINES`.
        engine_options: of `VllmModel`.
        extractor: keyword arguments of `Extractor`.
        settings: keyword arguments of `Extractor.many`.
        details: further columns of the results, see `results.DETAILS`.
        done: ids of documents that are left out.
        folder: where each block of results becomes a Parquet file; None: the results are returned.
        collect_failures: an exception becomes the column ``failure`` of a row; else it is raised.
    """

    model: str | Callable[[], Any] | None
    constraint: Any
    columns: Columns
    device: str | None = None
    engine: str = "builtin"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    extractor: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    done: frozenset[str] = frozenset()
    folder: str | None = None
    collect_failures: bool = False

    def engine_settings(self) -> dict[str, Any]:
        """What values depend on besides model, constraint and settings, for `run_settings`."""
        return engine_settings(self.engine, self.engine_options)

    def dump(self) -> bytes:
        """The job as bytes.

        Classes and functions of the user's own modules are sent whole, as other machines may not have the modules;
        where one cannot be sent, it is named, and the other machine imports it.
        """
        from ray import cloudpickle

        try:
            with _by_value(cloudpickle, user_modules()):
                return bytes(cloudpickle.dumps(self))
        except Exception:
            return bytes(cloudpickle.dumps(self))


def engine_settings(engine: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """An engine other than our own with its options, for `run_settings`."""
    if engine == "builtin":
        return {}
    return {"engine": engine, "engine_options": json.dumps(dict(options or {}), sort_keys=True, default=repr)}


def user_modules() -> list[ModuleType]:
    """The loaded modules that are neither installed nor part of Python or of this package."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages()}
    return [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] not in _OURS
        and (file := getattr(module, "__file__", None))
        and not any(os.path.abspath(file).startswith(place + os.sep) for place in places)
    ]


@contextlib.contextmanager
def _by_value(cloudpickle: Any, modules: list[ModuleType]) -> Iterator[None]:
    known = set(cloudpickle.list_registry_pickle_by_value())
    added = [module for module in modules if module.__name__ not in known and module.__name__ in sys.modules]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


BLOCK_ATTEMPTS = 4
"""How often a block is begun before it is left without results: Ray Data's own number of attempts has no end, and a document
may end every process that reads it."""


class AttemptCounter:
    """Counts how often blocks were begun and not ended; an actor of its own, which outlives those that read."""

    def __init__(self) -> None:
        """Nothing was begun yet."""
        self._begun: dict[str, int] = {}

    def begin(self, block: str) -> int:
        """The number of this attempt at a block, from 1."""
        self._begun[block] = self._begun.get(block, 0) + 1
        return self._begun[block]

    def end(self, block: str) -> None:
        """The block was read."""
        self._begun.pop(block, None)


class ExtractionActor:
    """One model with one constraint; called with a block of documents, an Arrow table, returns a table of results."""

    def __init__(self, job: bytes, attempts: Any) -> None:
        """Loads the model, once.

        Args:
            job: as of `ExtractionJob.dump`.
            attempts: handle of an `AttemptCounter`.

        Raises:
            ConstrainedError: as `load` and `Extractor`, unless the job collects failures.
        """
        from ray import cloudpickle

        self._job: ExtractionJob = cloudpickle.loads(job)
        self._attempts = attempts
        self._extractor: Any = None
        self._failure: str | None = None
        with self._collected():
            self._extractor = self._start()

    def __call__(self, table: Any) -> Any:
        """Reads a block of documents, unless `BLOCK_ATTEMPTS` actors were lost over it.

        Args:
            table: Arrow, with the columns of the job.

        Returns:
            Arrow table of `ResultRow.columns`, and of ``failure`` if the job collects failures; if the results became a
            file, a row with ``read``, the number of documents.

        Raises:
            WorkerError: actors were lost over the block, and the job does not collect failures.
        """
        import ray

        records = table.to_pylist()
        block = _digest(str(row.get(self._job.columns.id or "id")) for row in records)
        if ray.get(self._attempts.begin.remote(block)) > BLOCK_ATTEMPTS:
            return self._given_up(table.num_rows)
        result = self._read(records)
        self._attempts.end.remote(block)
        return result

    def _given_up(self, count: int) -> Any:
        """No results of a block: who counts them sees that they are missing."""
        if not self._job.collect_failures:
            raise WorkerError(
                f"{count} documents cannot be read: their actors were lost {BLOCK_ATTEMPTS} times",
                action="look for the reason in Ray's logs, such as too little memory",
            )
        return self._result_table([]) if self._job.folder is None else self._read_table(0)

    def _read(self, records: list[dict[str, Any]]) -> Any:
        rows: list[ResultRow] = []
        with self._collected():
            rows = list(self._results(records))
        if self._job.folder is None:
            return self._result_table(rows)
        if rows and self._failure is None:
            with self._collected():
                write_part(self._job.folder, rows, self._job.details)
        return self._read_table(len(records))

    def _read_table(self, count: int) -> Any:
        import pyarrow

        return pyarrow.table({"read": [count], "failure": _failures(self._failure, 1)})

    def _start(self) -> Any:
        from constrained.extraction.extractor import Extractor
        from constrained.models import LanguageModel, load

        job = self._job
        if job.engine == "vllm":
            from constrained.extraction.cluster.vllm_engine import VllmModel

            assert not callable(job.model)
            model: LanguageModel = VllmModel(job.model, **job.engine_options)
        elif callable(job.model):
            model = job.model()
        else:
            model = load(job.model, device=job.device)
            if job.model is None:
                import torch

                torch.set_num_threads(1)  # the model is so small that threads wait longer than they compute
        return Extractor(model, job.constraint, **job.extractor)

    def _results(self, rows: list[dict[str, Any]]) -> Iterator[ResultRow]:
        from constrained.extraction.extraction import Document

        if self._extractor is None:
            return
        records = [
            make_record(Row(row, "a row of the dataset", ""), self._job.columns)
            for row in rows
            if str(row.get(self._job.columns.id or "id")) not in self._job.done
        ]
        is_json = self._extractor.generator.constraint.is_json
        documents = (Document(record.id, record.text) for record in records)
        for extraction in self._extractor.many(documents, **self._job.settings):
            yield result_row(extraction, is_json=is_json, details=self._job.details)

    @contextlib.contextmanager
    def _collected(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._job.collect_failures:
                raise
            known = isinstance(error, ConstrainedError)
            self._failure = str(error) if known else f"{type(error).__name__}: {error}"

    def _result_table(self, rows: list[ResultRow]) -> Any:
        from constrained.extraction.files.parquet_files import arrow_table

        if not self._job.collect_failures:
            return arrow_table([row.columns() for row in rows], self._job.details)
        cells = [{}] if self._failure is not None else [row.columns() for row in rows]
        table = arrow_table(cells, self._job.details)
        return table.append_column("failure", _failures(self._failure, len(cells)))


def _failures(failure: str | None, count: int) -> Any:
    import pyarrow

    return pyarrow.array([failure] * count, pyarrow.string())


def _digest(ids: Iterable[str]) -> str:
    digest = blake2b(digest_size=12)
    for id in sorted(ids):
        digest.update(id.encode() + b"\0")
    return digest.hexdigest()


def write_part(folder: str, rows: list[ResultRow], details: Sequence[str] = ()) -> None:
    """Writes a block of results to a Parquet file that is named for the ids in it.

    An actor that is started for a lost one reads the same block again; its file then replaces the other's.

    Args:
        folder: where the file goes.
        rows: at least one.
        details: their further columns.
    """
    from constrained.extraction.files.parquet_files import write_results

    name = os.path.join(folder, f"part-{_digest(row.id for row in rows)}.parquet")
    write_results((row.columns() for row in rows), name, details)
