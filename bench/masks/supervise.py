"""Starts a worker for an engine, holds it to its limits, and starts another when it has died."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.bench.harness.machine import resident_bytes
from constrained.bench.masks import rows as r
from constrained.bench.masks.workload import SchemaCase

_GLANCE = 0.02
"""Seconds between two looks at a worker's memory."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What a worker may take.

    Attributes:
        seconds: for one schema, with all its passes.
        bytes: resident memory of the process (looked at every 20 ms, where the system has ``/proc``).
        setup_seconds: for reading the vocabulary.
        threads: of the engine; the process may use as many cores.
    """

    seconds: float
    bytes: int
    setup_seconds: float = 600.0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker that can start.

    Attributes:
        version: of the engine.
        seconds: it took to read the vocabulary.
        bytes: resident memory before the first schema; None where the system does not say.
    """

    version: str
    seconds: float
    bytes: int | None


class EngineUnavailable(Exception):
    """An engine cannot be started: not installed, or it fails on the vocabulary."""


class EngineDied(Exception):
    """A worker ended before it answered; `outcome` is a key of `OUTCOMES`."""

    def __init__(self, outcome: str, message: str, bytes: int | None = None) -> None:
        self.outcome = outcome
        self.bytes = bytes
        super().__init__(message)


class EngineWorker:
    """One process of one engine.

    Args:
        engine: its name.
        tokens: file of the vocabulary.
        limits: what it may take.
        log: file that gets what the engine prints.

    Raises:
        EngineUnavailable: the engine cannot be started.
    """

    module = f"{__package__}.worker"
    """What the process runs."""
    pinned = True
    """Whether it gets cores of its own."""

    def __init__(self, engine: str, tokens: Path, limits: WorkerLimits, log: Path) -> None:
        self._limits = limits
        self._pending = b""
        command = [sys.executable, "-m", self.module, engine, str(tokens), str(limits.threads)]
        count = str(limits.threads)
        environment = (
            os.environ | dict.fromkeys(_THREAD_VARIABLES, count) | {"TOKENIZERS_PARALLELISM": "false"}
        )
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # an interrupt from the keyboard is for us, who then end it
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        try:
            if self.pinned:
                _use_cores(self._process.pid, limits.threads)
            hello = self._answer(time.monotonic() + limits.setup_seconds)
        except EngineDied as death:
            self.close()
            raise EngineUnavailable(f"{death.outcome} while reading the vocabulary: {death}") from None
        except BaseException:
            self.close()
            raise
        if "unavailable" in hello:
            self.close()
            raise EngineUnavailable(hello["unavailable"])
        self.ready = WorkerInfo(hello["version"], hello["seconds"], hello["bytes"])

    def ask(self, case: SchemaCase, **options: Any) -> dict[str, Any]:
        """The row of a case as JSON values; if the worker dies, a row that says how. It is then closed."""
        question = {
            "id": case.id,
            "schema": case.schema,
            "instances": [{"valid": i.valid, "tokens": i.tokens} for i in case.instances],
            **options,
        }
        phase = "compile"
        deadline = time.monotonic() + self._limits.seconds
        try:
            self._send(json.dumps(question).encode() + b"\n", deadline)
            while "row" not in (answer := self._answer(deadline)):
                phase = answer["phase"]
        except EngineDied as death:
            self.close()
            fate = {"outcome": death.outcome, "phase": phase, "message": str(death)}
            return {**fate, "peak_bytes": death.bytes}
        row: dict[str, Any] = answer["row"]
        if row["outcome"] == r.CRASHED:
            self.close()
        return row

    @property
    def closed(self) -> bool:
        """Whether the process is gone."""
        return self._process.returncode is not None

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        if not self.closed:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()

    def _send(self, data: bytes, deadline: float) -> None:
        # The worker reads a whole line before it does anything else, so this cannot wait for an answer.
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None

    def _answer(self, deadline: float) -> dict[str, Any]:
        """The next line the worker writes.

        Raises:
            EngineDied: there will be none, or not in time.
        """
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            if self._selector.select(_GLANCE):
                data = self._process.stdout.read()
                if data == b"":
                    raise self._death()
                self._pending += data or b""
            elif (used := resident_bytes(self._process.pid)) is not None and used > self._limits.bytes:
                raise EngineDied(r.MEMORY, f"{used >> 20} MiB", used)
            elif time.monotonic() > deadline:
                raise EngineDied(r.TIMEOUT, "")
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _death(self) -> EngineDied:
        code = self._process.wait()
        if code < 0:
            with contextlib.suppress(ValueError):
                return EngineDied(r.CRASHED, signal.Signals(-code).name)
        return EngineDied(r.CRASHED, f"exit code {code}")


def run_cases(
    engine: str,
    cases: Iterable[SchemaCase],
    start: Callable[[], EngineWorker],
    options: Callable[[SchemaCase], dict[str, Any]],
) -> Generator[r.MaskBenchRow, None, None]:
    """A row for every case; a worker that died is replaced, one that cannot be replaced ends the measurement.

    Args:
        engine: its name.
        cases: in the order in which they are gone through.
        start: makes a worker.
        options: what else to tell the worker about a case.

    Raises:
        EngineUnavailable: not even the first worker can be started.
    """
    worker = start()
    stopped = ""
    try:
        for case in cases:
            if worker.closed and not stopped:
                try:
                    worker = start()
                except EngineUnavailable as error:
                    stopped = str(error)
            if stopped:
                yield r.MaskBenchRow(engine, case.id, r.NOT_RUN, message=stopped)
                continue
            row = r.MaskBenchRow(engine, case.id).to_json() | worker.ask(case, **options(case))
            yield r.MaskBenchRow.from_json(row)
    finally:
        worker.close()


def _use_cores(process: int, count: int) -> None:
    """Lets a process run on `count` cores only, so that no engine gains by threads it was not given."""
    if hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(process, sorted(os.sched_getaffinity(0))[-count:])
