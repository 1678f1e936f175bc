"""A whole run: engines one after another, schemas shared out over processes, rows written as they come."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from constrained.errors import InvalidArgument
from constrained.evaluate.jsonschemabench import data
from constrained.evaluate.jsonschemabench import rows as r
from constrained.evaluate.masks import machine
from constrained.evaluate.masks import rows as worker_rows
from constrained.evaluate.masks.engines import checked
from constrained.evaluate.masks.supervise import Died, Limits, Unavailable
from constrained.evaluate.masks.supervise import Worker as _Worker

ROWS = "rows.jsonl"
FACTS = "settings.json"
DEFAULT = ("constrained", "xgrammar", "llguidance", "outlines")

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure.

    Attributes:
        data: as `data.read` takes it.
        splits: names; none: all.
        sample: schemas of each split; 0: all.
        seed: of the draw.
        engines: names out of `constrained.evaluate.masks.engines`, or ``module:Class``.
        model: name or folder, or ``module:function`` that makes one; None: the bundled one.
        device: where the model goes.
        max_tokens: of a text.
        compile_limit, time_limit: seconds for compiling, and for the text.
        memory_limit: GiB of a process.
        processes: side by side; each has a model of its own.
        threads: of each process.

    Raises:
        InvalidArgument: a value is out of range, or an engine unknown.
    """

    data: str
    splits: tuple[str, ...] = ()
    sample: int = 50
    seed: int = 0
    engines: tuple[str, ...] = DEFAULT
    model: str | None = None
    device: str | None = None
    max_tokens: int = 256
    compile_limit: float = 40.0
    time_limit: float = 40.0
    memory_limit: float = 8.0
    processes: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        if not self.engines or len(set(self.engines)) != len(self.engines):
            raise InvalidArgument("engines are none, or named twice", action="name each engine once")
        for name in self.engines:
            checked(name)
        if self.sample < 0 or min(self.max_tokens, self.processes, self.threads) < 1:
            raise InvalidArgument("a number is below its least", action="give positive numbers")
        if min(self.compile_limit, self.time_limit, self.memory_limit) <= 0:
            raise InvalidArgument(
                "a limit of nothing leaves nothing to measure", action="give a positive limit"
            )

    @property
    def measured(self) -> dict[str, Any]:
        """What rows depend on; the rest may change when a run goes on."""
        left_out = ("engines", "processes", "sample", "splits")
        return {name: value for name, value in asdict(self).items() if name not in left_out}


@dataclass(frozen=True, slots=True)
class Results:
    """What a run found.

    Attributes:
        rows: all of the folder, those of earlier runs too.
        versions: of the engines.
        unavailable: engines that could not be started, and why.
        facts: settings and machine.
    """

    rows: list[r.Row]
    versions: dict[str, str]
    unavailable: dict[str, str]
    facts: dict[str, Any]


class Worker(_Worker):
    """The process of one engine with its model."""

    module = "constrained.evaluate.jsonschemabench.worker"
    pinned = False

    def row(self, engine: str, item: data.Item, settings: Settings) -> r.Row:
        """The row of a schema; if the process dies, one that says how. It is then closed."""
        row = r.Row(engine, item.id, item.split, instances=len(item.tests)).to_json()
        limits = {"compile": settings.compile_limit}
        phase = "compile"
        deadline = time.monotonic() + settings.compile_limit
        try:
            self._send(json.dumps(asdict(item)).encode() + b"\n", deadline)
            while "row" not in (answer := self._answer(deadline)):
                phase, row = answer["phase"], answer["row so far"]
                deadline = time.monotonic() + limits.get(phase, settings.time_limit)
        except Died as death:
            self.close()
            found = r.Row(**{**row, "phase": phase})
            if phase == "instances":  # the text is there, and judged
                return found
            late = r.COMPILE_TIMEOUT if phase == "compile" else r.GENERATION_TIMEOUT
            found.status = late if death.outcome == worker_rows.TIMEOUT else r.CRASH
            found.message = f"{death.outcome} {death}".strip()
            return found
        return r.Row(**answer["row"])


def run(settings: Settings, out: Path, progress: Progress = lambda what, done, total: None) -> Results:
    """Measures what is not in the folder yet.

    Args:
        settings: what to measure.
        out: folder of the rows; a run that was interrupted goes on in it.
        progress: is told what goes on.

    Raises:
        InvalidArgument: the data cannot be read, or the folder holds rows of other settings.
    """
    items = data.draw(data.read(settings.data), settings.splits, settings.sample, settings.seed)
    facts = _settle(settings, out)
    known = read_rows(out)
    versions: dict[str, str] = facts["versions"]
    unavailable: dict[str, str] = {}
    for engine in settings.engines:
        done = {row.id for row in known if row.engine == engine}
        left = [item for item in items if item.id not in done]
        try:
            known += _Shards(engine, settings, out, versions).measure(left, len(items), progress)
        except Unavailable as error:
            unavailable[engine] = str(error)
    (out / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    wanted = {item.id for item in items}
    rows = [row for row in known if row.id in wanted and row.engine in settings.engines]
    return Results(rows, versions, unavailable, facts)


def read_rows(out: Path) -> list[r.Row]:
    """The rows of a folder; a line that was cut off by an interruption is left out."""
    rows = []
    if (out / ROWS).exists():
        for line in (out / ROWS).read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, TypeError):
                rows.append(r.Row(**json.loads(line)))
    return rows


def _settle(settings: Settings, out: Path) -> dict[str, Any]:
    """The facts of the folder, which have to be those of these settings."""
    measured = settings.measured | {"data": Path(settings.data).name}
    facts: dict[str, Any] = {"settings": measured, "machine": machine.describe(), "versions": {}}
    try:
        out.mkdir(parents=True, exist_ok=True)
        if (out / FACTS).exists():
            facts = json.loads((out / FACTS).read_text(encoding="utf-8"))
        else:
            (out / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{str(out)!r} cannot be used: {error}", action="check --out") from None
    rows = out / ROWS
    if rows.exists() and not rows.read_bytes().endswith(b"\n"):  # the last line was cut off
        with rows.open("a", encoding="utf-8") as file:
            file.write("\n")
    if facts.get("settings") != measured:
        raise InvalidArgument(
            f"{str(out)!r} holds rows of other settings", action="name another folder with --out"
        )
    return facts


class _Shards:
    """The processes of one engine."""

    def __init__(self, engine: str, settings: Settings, out: Path, versions: dict[str, str]) -> None:
        self.engine = engine
        self.settings = settings
        self.out = out
        self.versions = versions
        self.rows: list[r.Row] = []
        self.failed: Exception | None = None
        self._queue: queue.SimpleQueue[data.Item] = queue.SimpleQueue()
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self._stopped = False

    def measure(self, items: list[data.Item], total: int, progress: Progress) -> list[r.Row]:
        """A row for each schema.

        Raises:
            Unavailable: the engine cannot be started.
        """
        if not items:
            return []
        for item in items:
            self._queue.put(item)
        before = total - len(items)
        count = min(self.settings.processes, len(items))
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.2)
                progress(self.engine, before + len(self.rows), total)
        finally:
            with self._lock:
                self._stopped = True
                workers = list(self._workers)
            for worker in workers:
                worker.close()
        if self.failed is not None:
            raise self.failed
        return self.rows

    def _start(self) -> Worker:
        settings = self.settings
        limits = Limits(settings.time_limit, int(settings.memory_limit * 2**30), threads=settings.threads)
        settings_file = self.out / f".{self.engine.replace(':', '.')}.json"
        settings_file.write_text(json.dumps(asdict(settings)), encoding="utf-8")
        log = self.out / f"{self.engine.replace(':', '.')}.log"
        worker = Worker(self.engine, settings_file, limits, log)
        with self._lock:
            self._workers.append(worker)
            self.versions.setdefault(self.engine, worker.ready.version)
        return worker

    def _work(self) -> None:
        worker: Worker | None = None
        try:
            while not self._stopped and self.failed is None:
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    return
                if worker is None or worker.closed:
                    worker = self._start()
                row = worker.row(self.engine, item, self.settings)
                with self._lock:
                    if self._stopped:  # it was ended from outside, and says nothing of the schema
                        return
                    with (self.out / ROWS).open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row.to_json(), separators=(",", ":")) + "\n")
                    self.rows.append(row)
        except Exception as error:
            self.failed = error
        finally:
            if worker is not None:
                worker.close()
