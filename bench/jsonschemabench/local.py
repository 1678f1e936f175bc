"""The processes of this machine: schemas are shared out over them, and each has a model of its own."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from constrained.bench.jsonschemabench import rows as r
from constrained.bench.masks import rows as worker_rows
from constrained.bench.masks.supervise import EngineDied, WorkerLimits
from constrained.bench.masks.supervise import EngineWorker as _Worker

if TYPE_CHECKING:
    from constrained.bench.jsonschemabench.data import SchemaItem
    from constrained.bench.jsonschemabench.settings import SchemaBenchSettings


class ModelWorker(_Worker):
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
        todo: queue.SimpleQueue[SchemaItem] = queue.SimpleQueue()
        for item in items:
            todo.put(item)
        shared = _Shared(self.worker, engine, self._settings, self._out, todo)
        count = min(self._settings.processes, len(items))
        threads = [threading.Thread(target=shared.work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            while count:
                found = shared.found.get()
                if isinstance(found, Exception):
                    raise found
                if found is None:
                    count -= 1
                else:
                    self.versions.setdefault(engine, shared.version)
                    yield found
        finally:
            shared.stop()
            for thread in threads:
                thread.join()


class VllmBackend(LocalBackend):
    """The backend ``vllm``: engines are backends of structured outputs inside vLLM."""

    worker = VllmWorker


class _Shared:
    """What the processes of one engine have in common.

    Attributes:
        found: rows as they come; None where a process has nothing left to do, or why there are no more.
        version: of the engine, once it has started.
    """

    def __init__(
        self,
        worker: type[ModelWorker],
        engine: str,
        settings: SchemaBenchSettings,
        out: Path,
        todo: queue.SimpleQueue[SchemaItem],
    ) -> None:
        self._worker_class = worker
        self.found: queue.SimpleQueue[r.SchemaBenchRow | Exception | None] = queue.SimpleQueue()
        self.version = ""
        self._engine = engine
        self._settings = settings
        self._out = out
        self._todo = todo
        self._workers: list[ModelWorker] = []
        self._lock = threading.Lock()
        self._stopped = False

    def work(self) -> None:
        """Goes through schemas with one process, or several after one another where one dies."""
        worker: ModelWorker | None = None
        try:
            while not self._stopped:
                try:
                    item = self._todo.get_nowait()
                except queue.Empty:
                    break
                if worker is None or worker.closed:
                    worker = self._start()
                row = worker.row(self._engine, item, self._settings)
                with self._lock:
                    if (
                        not self._stopped
                    ):  # otherwise it was ended from outside, and says nothing of the schema
                        self.found.put(row)
            self.found.put(None)
        except Exception as error:
            self.found.put(error)
        finally:
            if worker is not None:
                worker.close()

    def stop(self) -> None:
        """Ends the processes, whatever they are doing."""
        with self._lock:
            self._stopped = True
            workers = list(self._workers)
        for worker in workers:
            worker.close()

    def _start(self) -> ModelWorker:
        worker = self._worker_class(self._engine, self._settings, self._out)
        with self._lock:
            self._workers.append(worker)
            self.version = worker.ready.version
            if self._stopped:
                worker.close()
        return worker
