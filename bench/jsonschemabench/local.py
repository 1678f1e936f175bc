"""The processes of this machine: schemas are shared out over them, and each has a model of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from constrained.bench.jsonschemabench import rows as r
from constrained.bench.masks import rows as worker_rows
from constrained.bench.masks.supervise import EngineDied, EngineWorker, WorkerLimits

if TYPE_CHECKING:
    from constrained.bench.jsonschemabench.data import SchemaItem
    from constrained.bench.jsonschemabench.settings import SchemaBenchSettings


class ModelWorker(EngineWorker):
    """The process of one engine with its model.

    Args:
        engine: its name.
        settings: settings and limits of the process.
        folder: gets its settings and its log.

    Raises:
        EngineUnavailable: the engine cannot be started.
    """

    module = "constrained.bench.jsonschemabench.worker"
    pinned = False

    def __init__(self, engine: str, settings: SchemaBenchSettings, folder: Path) -> None:
        limits = WorkerLimits(
            settings.time_limit, int(settings.memory_limit * 2**30), threads=settings.threads
        )
        name = engine.replace(":", ".")
        settings_file = folder / f".{name}.json"
        settings_file.write_text(json.dumps(asdict(settings)), encoding="utf-8")
        super().__init__(engine, settings_file, limits, folder / f"{name}.log")

    def row(self, engine: str, item: SchemaItem, settings: SchemaBenchSettings) -> r.SchemaBenchRow:
        """The row of a schema; if the process dies, one that says how. It is then closed."""
        row = r.SchemaBenchRow(engine, item.id, item.split, instances=len(item.tests)).to_json()
        limits = {"compile": settings.compile_limit}
        phase = "compile"
        deadline = time.monotonic() + settings.compile_limit
        try:
            self._send(json.dumps(asdict(item)).encode() + b"\n", deadline)
            while "row" not in (answer := self._answer(deadline)):
                phase, row = answer["phase"], answer["row so far"]
                deadline = time.monotonic() + limits.get(phase, settings.time_limit)
        except EngineDied as death:
            self.close()
            found = r.SchemaBenchRow(**{**row, "phase": phase})
            if phase == "instances":  # the text is there, and judged
                return found
            late = r.COMPILE_TIMEOUT if phase == "compile" else r.GENERATION_TIMEOUT
            found.status = late if death.outcome == worker_rows.TIMEOUT else r.CRASH
            found.message = f"{death.outcome} {death}".strip()
            return found
        return r.SchemaBenchRow(**answer["row"])


class VllmWorker(ModelWorker):
    """The process of a vLLM engine."""

    module = "constrained.bench.jsonschemabench.vllm_worker"


class LocalBackend:
    """The backend ``local``, see `constrained.bench.jsonschemabench.run.Backend`."""

    worker: type[ModelWorker] = ModelWorker

    def __init__(self, settings: SchemaBenchSettings, out: Path) -> None:
        self.versions: dict[str, str] = {}
        self._settings = settings
        self._out = out

    def rows(self, engine: str, items: Sequence[SchemaItem]) -> Generator[r.SchemaBenchRow, None, None]:
        """See `Backend`."""
        workers: dict[int, ModelWorker] = {}
        stopped = threading.Event()

        def row(item: SchemaItem) -> r.SchemaBenchRow:
            thread = threading.get_ident()
            if thread not in workers or workers[thread].closed:
                workers[thread] = self.worker(engine, self._settings, self._out)
                self.versions.setdefault(engine, workers[thread].ready.version)
            if stopped.is_set():
                workers[thread].close()
            return workers[thread].row(engine, item, self._settings)

        pool = ThreadPoolExecutor(self._settings.processes)
        try:
            for answer in as_completed([pool.submit(row, item) for item in items]):
                yield answer.result()
        finally:  # ends the processes, whatever they are doing
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in list(workers.values()):
                worker.close()
            pool.shutdown()


class VllmBackend(LocalBackend):
    """The backend ``vllm``: engines are backends of structured outputs inside vLLM."""

    worker = VllmWorker
