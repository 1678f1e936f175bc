"""A whole run: engines one after another, schemas shared out by a backend, rows written as they come."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from constrained.bench.harness import results
from constrained.bench.harness.machine import note_load
from constrained.bench.harness.results import RowWriter, settle_folder, write_facts
from constrained.bench.harness.settings import (
    Progress,
    check_distinct,
    check_minimum,
    check_positive,
    no_progress,
)
from constrained.bench.jsonschemabench import data
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.masks.engines import check_engine
from constrained.bench.masks.engines.unconstrained import UNCONSTRAINED
from constrained.bench.masks.supervise import EngineUnavailable
from constrained.errors import InvalidArgument
from constrained.extras import require_extra

SCHEMA_BENCH_ENGINES = ("constrained", "xgrammar", "llguidance", "outlines", UNCONSTRAINED)
VLLM_ENGINES = ("constrained", "xgrammar", "guidance", "outlines", "lm-format-enforcer", UNCONSTRAINED)
"""Backends of structured outputs inside vLLM, and vLLM without any."""
_IN_VLLM = ("vllm", "vllm-server")


@dataclass(frozen=True, slots=True)
class SchemaBenchSettings:
    """What to measure.

    Attributes:
        data: as `data.read` takes it.
        splits: names; none: all.
        sample: schemas of each split; 0: all.
        seed: of the draw.
        engines: names out of `constrained.bench.masks.engines`, or ``module:Class``; inside vLLM, out of
            `VLLM_ENGINES`.
        models: name or folder of each, or ``module:function`` that makes one, or ``bundled``.
        device: where they go.
        max_tokens: of a text.
        compile_limit, time_limit: seconds for compiling, and for the text.
        memory_limit: GiB of a process.
        processes: side by side; each has a model of its own. With the backend ``vllm-server``: requests at a time.
        threads: of each process.
        backend: where the processes are, out of `BACKENDS`.
        address: of a Ray cluster that runs; None: one of this machine alone, for this run.

    Raises:
        InvalidArgument: a value is out of range, or an engine or backend unknown.
    """

    data: str
    splits: tuple[str, ...] = ()
    sample: int = 50
    seed: int = 0
    engines: tuple[str, ...] = SCHEMA_BENCH_ENGINES
    models: tuple[str, ...] = (r.BUNDLED,)
    device: str | None = None
    max_tokens: int = 256
    compile_limit: float = 40.0
    time_limit: float = 40.0
    memory_limit: float = 8.0
    processes: int = 1
    threads: int = 1
    backend: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        check_distinct(self.engines, "engine")
        check_distinct(self.models, "model")
        for name in self.engines:
            if self.backend not in _IN_VLLM:
                check_engine(name)
            elif name not in VLLM_ENGINES:
                raise InvalidArgument(
                    f"vLLM has no backend {name!r}", action=f"use some of: {', '.join(VLLM_ENGINES)}"
                )
        if self.backend not in BACKENDS:
            raise InvalidArgument(
                f"the backend {self.backend!r} is not known", action=f"use one of: {', '.join(BACKENDS)}"
            )
        if self.address is not None and self.backend != "ray":
            raise InvalidArgument("an address is for a Ray cluster", action="pass --backend ray with it")
        check_minimum(self, sample=0, max_tokens=1, processes=1, threads=1)
        check_positive(self, "compile_limit", "time_limit", "memory_limit")

    @property
    def gpus(self) -> int:
        """Of a process."""
        return int((self.device or "").startswith("cuda"))

    @property
    def measured(self) -> dict[str, Any]:
        """The settings that rows depend on; the others may change when a run is resumed."""
        left_out = ("engines", "models", "processes", "sample", "splits", "backend", "address")
        found = {name: value for name, value in asdict(self).items() if name not in left_out}
        return found | ({"backend": self.backend} if self.backend in _IN_VLLM else {})


@dataclass(frozen=True, slots=True)
class SchemaBenchResults:
    """What a run found.

    Attributes:
        rows: all of the folder, those of earlier runs too.
        versions: of the engines.
        unavailable: engines that could not be started, with the model where there are several, and why.
        facts: settings and machine.
    """

    rows: list[r.SchemaBenchRow]
    versions: dict[str, str]
    unavailable: dict[str, str]
    facts: dict[str, Any]


class Backend(Protocol):
    """Where schemas are gone through, with the one model of its settings.

    Attributes:
        versions: of the engines that have given a row.
    """

    versions: dict[str, str]

    def rows(self, engine: str, items: Sequence[data.SchemaItem]) -> Generator[r.SchemaBenchRow, None, None]:
        """A row for each schema, as they come; an iterator that is closed early ends the work.

        Args:
            engine: its name.
            items: at least one.

        Raises:
            EngineUnavailable: the engine cannot be started.
        """


BACKENDS = {
    "local": "constrained.bench.jsonschemabench.local:LocalBackend",
    "ray": "constrained.bench.jsonschemabench.cluster:RayBackend",
    "vllm": "constrained.bench.jsonschemabench.local:VllmBackend",
    "vllm-server": "constrained.bench.jsonschemabench.vllm_server:VllmServerBackend",
}
"""Name -> module and class, which is called with the settings and the folder of the run."""
PACKAGES = {"ray": "ray", "vllm": "vllm", "vllm-server": "vllm"}
"""Name of a backend -> package that it needs, which is also the name of the extra."""


def run(
    settings: SchemaBenchSettings, out: Path, progress: Progress = no_progress, *, resume: bool = False
) -> SchemaBenchResults:
    """Measures; writes each row as soon as it is known.

    Args:
        settings: what to measure.
        out: folder of the rows.
        progress: shows progress.
        resume: go on in a folder that holds rows: measures what is not there yet.

    Raises:
        MissingExtra: the package of the backend is not installed; there is no folder then.
        InvalidArgument: the data cannot be read, or the folder holds rows and is not to be resumed, or holds rows of
            other settings.
    """
    package = PACKAGES.get(settings.backend)
    if package is not None and find_spec(package) is None:
        with require_extra(package):
            raise ModuleNotFoundError(name=package)
    items = data.draw(data.read(settings.data), settings.splits, settings.sample, settings.seed)
    measured = settings.measured | {"data": Path(settings.data).name}
    facts = settle_folder(out, measured, resume=resume)
    known = read_rows(out)
    unavailable: dict[str, str] = {}
    for model, engine in itertools.product(settings.models, settings.engines):
        done = {row.id for row in known if (row.model, row.engine) == (model, engine)}
        left = [item for item in items if item.id not in done]
        if not left:
            continue
        backend = _backend(replace(settings, models=(model,)), out)
        backend.versions = facts["versions"]
        before = len(items) - len(left)
        name = engine if len(settings.models) == 1 else f"{engine}, {model}"
        progress(name, before, len(items))
        try:
            with contextlib.closing(backend.rows(engine, left)) as found, RowWriter(out) as writer:
                for count, row in enumerate(found, before + 1):
                    row.model = model
                    writer.write(row)
                    known.append(row)
                    note_load(facts["machine"])
                    progress(name, count, len(items))
        except EngineUnavailable as error:
            unavailable[name] = str(error)
        write_facts(out, facts)
    wanted = {item.id for item in items}
    rows = [
        row
        for row in known
        if row.id in wanted and row.engine in settings.engines and row.model in settings.models
    ]
    return SchemaBenchResults(rows, facts["versions"], unavailable, facts)


def read_rows(out: Path) -> list[r.SchemaBenchRow]:
    """The rows of a folder; a line that was cut off by an interruption is left out."""
    return [r.SchemaBenchRow(**row) for row in results.read_rows(out)]


def _backend(settings: SchemaBenchSettings, out: Path) -> Backend:
    module, _, name = BACKENDS[settings.backend].partition(":")
    backend: Backend = getattr(import_module(module), name)(settings, out)
    return backend
