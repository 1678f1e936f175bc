"""A whole run: engines one after another, schemas shared out by a backend, rows written as they come."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from constrained.bench.harness.machine import note_load
from constrained.bench.harness.results import RowWriter, RunResults, read_rows, settle_folder, write_facts
from constrained.bench.harness.settings import Progress, data_file, no_progress
from constrained.bench.jsonschemabench import data
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.jsonschemabench.settings import BACKENDS, SchemaBenchSettings
from constrained.bench.masks.supervise import EngineUnavailable
from constrained.extras import require_extra


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


PACKAGES = {"ray": "ray", "vllm": "vllm", "vllm-server": "vllm"}
"""Name of a backend -> package that it needs, which is also the name of the extra."""


def run(
    settings: SchemaBenchSettings, out: Path, progress: Progress = no_progress, *, resume: bool = False
) -> RunResults[r.SchemaBenchRow]:
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
    source = settings.data if settings.data is not None else str(data_file(None))
    items = data.draw(data.read(source), settings.splits, settings.sample, settings.seed)
    facts = settle_folder(out, settings.measured | {"data": Path(source).name}, resume=resume)
    known = list(read_rows(out, r.SchemaBenchRow))
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
    return RunResults(rows, facts, unavailable)


def _backend(settings: SchemaBenchSettings, out: Path) -> Backend:
    module, _, name = BACKENDS[settings.backend].partition(":")
    backend: Backend = getattr(import_module(module), name)(settings, out)
    return backend
