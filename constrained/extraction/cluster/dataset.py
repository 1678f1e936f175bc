"""Extraction on a Ray cluster, through Ray Data: actors that load the model once, and blocks of documents.

A block that an actor was reading when it was lost is read again by another one, from its beginning, so that each document
has one result.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.constraint import as_constraint
from constrained.errors import DocumentError, InvalidArgument, WorkerError
from constrained.extraction.cluster.ray_actor import (
    BLOCK_ATTEMPTS,
    ENGINES,
    AttemptCounter,
    ExtractionActor,
    ExtractionJob,
)
from constrained.extraction.cluster.ray_cluster import load_ray
from constrained.extraction.files.records import Columns, Record
from constrained.extraction.files.results import check_details, open_run, run_settings
from constrained.extraction.options import split_options

BATCHES_PER_BLOCK = 4
"""Batches that an actor reads at a time: fewer would leave it waiting, more would be lost with it."""


def extract_dataset(
    dataset: Any,
    model: str | Callable[[], Any] | None,
    constraint: Any,
    *,
    text_column: str = "text",
    id_column: str = "id",
    actors: int | tuple[int, int] = 1,
    cpus_per_actor: float = 1,
    gpus_per_actor: float = 0,
    batch_size: int = 32,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    engine: str = "builtin",
    engine_options: Mapping[str, Any] | None = None,
    device: str | None = None,
    details: Sequence[str] = (),
    **options: Any,
) -> Any:
    """Extracts values from the documents of a `ray.data.Dataset`.

    Args:
        dataset: rows with a text and an id, a string or an integer, which is that of no other row.
        model: name or folder of a model, which every actor loads once; or a function that loads one; None: the bundled
            model.
        constraint: a Python type, a JSON Schema, or a `Constraint`.
        text_column: the column of texts.
        id_column: the column of ids.
        actors: how many, or the least and the greatest number. They must leave a core of the cluster free for Ray Data's
            own work.
        cpus_per_actor: cores that Ray reserves for each.
        gpus_per_actor: GPUs that Ray reserves for each; a part of one lets several share it.
        batch_size: documents in the forward passes of an actor at once.
        out: a folder that all machines reach by this path. The results become Parquet files in it, each of which
            appears when it is whole; the call returns when all are there.
        resume: with `out`: leave documents out that have a result in the folder.
        engine: what generates in the actors: ``builtin``, a model of `load`; or ``vllm``, an engine of vLLM in each of them,
            without predicates, exact samplers and `fields`.
        engine_options: for vLLM, the arguments of `vllm.LLM`, such as ``max_model_len`` or ``tensor_parallel_size``.
        device: of the models, for ``builtin``; None: the actor's GPU, if it has one.
        details: further columns, JSON text: ``spans`` (where each value stands), ``fields`` (how likely it was; one more pass
            of the model for each document), ``partial`` (the text that the token limit cut).
        options: keyword arguments of `Extractor` and of `extract_many`.

    Returns:
        A `ray.data.Dataset` with the columns ``id``, ``value`` (JSON text, or None), ``error``, ``error_type`` (None, if
        there is no error) and ``attempts``, and those of `details`. Without `out` it is computed when it is read.

    Raises:
        InvalidArgument: an argument is out of range or of a wrong type; the engine is another one, or cannot do what is asked.
        DocumentError: with `out`: the folder has results and `resume` is False, or they were made with other settings.
        ConstraintError: the constraint cannot be used.
        ConstrainedError: with `out`: as `load` and `Extractor`; without it, Ray wraps these errors when the dataset is
            read.
        WorkerError: with `out`: an actor failed, or actors were lost again and again over some documents; the others
            have results.
        MissingExtra: Ray is not installed.
    """
    load_ray()
    check_engine(engine, model, device=device, options=engine_options, details=details)
    if not (model is None or isinstance(model, str) or callable(model)) or hasattr(model, "parameters"):
        raise InvalidArgument(
            f"the model is of type {type(model).__name__}",
            action="pass its name or folder, or a function that loads it: every actor loads the model itself",
        )
    constraint = as_constraint(constraint)
    _ = constraint.grammar  # its errors come here and not from an actor
    for_extractor, settings = split_options(options)
    job = ExtractionJob(
        model,
        constraint,
        Columns(text_column, id_column),
        device=device,
        engine=engine,
        engine_options=dict(engine_options or {}),
        extractor=for_extractor,
        settings={**settings, "batch_size": batch_size},
        details=check_details(details),
        collect_failures=out is not None,
        folder=None if out is None else _folder(os.fspath(out)),
    )
    pool = ActorPool(actors, cpus_per_actor, gpus_per_actor)
    dataset = in_blocks(dataset, batch_size)
    if out is None:
        return mapped(dataset, job, pool)
    return _into_folder(dataset, job, pool, resume=resume)


def check_engine(
    engine: str, model: Any, *, device: str | None, options: Mapping[str, Any] | None, details: Sequence[str]
) -> None:
    """Checks what is asked of an engine.

    Args:
        engine: of `ENGINES`.
        model: as of `extract_dataset`.
        device: of the models.
        options: the engine's.
        details: further columns of the results.

    Raises:
        InvalidArgument: there is no such engine, or it cannot do this.
    """
    if engine not in ENGINES:
        raise InvalidArgument(
            f"the engine {engine!r} is not known", action=f"use one of: {', '.join(ENGINES)}"
        )
    if engine == "builtin":
        if options:
            raise InvalidArgument(
                "engine_options are for vLLM", action="pass engine='vllm' too, or leave them out"
            )
        return
    if callable(model):
        raise InvalidArgument("vLLM loads a model by its name or folder", action="pass that")
    if device is not None:
        raise InvalidArgument("vLLM chooses the device", action="leave device out; see vLLM's own options")
    if "fields" in details:
        raise InvalidArgument("vLLM does not say how likely values are", action="leave fields out of details")


@dataclass(frozen=True)
class ActorPool:
    """The actors of a job.

    Attributes:
        actors: how many, or the least and the greatest number.
        cpus: cores that Ray reserves for each.
        gpus: GPUs that Ray reserves for each.

    Raises:
        InvalidArgument: a number is out of range.
    """

    actors: int | tuple[int, int] = 1
    cpus: float = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        numbers = (*self.bounds, 1)
        if any(type(number) is not int for number in numbers) or sorted(numbers) != [1, *self.bounds]:
            raise InvalidArgument(f"actors is {self.actors!r}", action="pass a whole number >= 1, or two")
        if min(self.cpus, self.gpus) < 0:
            raise InvalidArgument(f"an actor has {self.cpus!r} cores and {self.gpus!r} GPUs")

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest number of actors."""
        return self.actors if isinstance(self.actors, tuple) else (self.actors, self.actors)


def mapped(dataset: Any, job: ExtractionJob, pool: ActorPool) -> Any:
    """The dataset of the results of a job; computed when it is read.

    Args:
        dataset: of the documents, in blocks as of `in_blocks`.
        job: what actors do.
        pool: the actors.
    """
    import ray
    from ray.data import ActorPoolStrategy

    least, most = pool.bounds
    block_size = BATCHES_PER_BLOCK * job.settings["batch_size"]
    counter = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(AttemptCounter).remote()
    return dataset.map_batches(
        ExtractionActor,
        fn_constructor_args=(job.dump(), counter),
        batch_size=block_size,
        batch_format="pyarrow",
        zero_copy_batch=True,
        compute=ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=pool.cpus,
        num_gpus=pool.gpus,
    )


def in_blocks(dataset: Any, batch_size: int) -> Any:
    """The dataset in blocks of documents: a block is what is read again when an actor is lost."""
    return dataset.repartition(target_num_rows_per_block=BATCHES_PER_BLOCK * batch_size)


def records_dataset(records: Iterable[Record], block_size: int) -> Any:
    """A dataset of documents, in blocks.

    The blocks go to Ray's object store as they are read, which puts them on the disk when it is full: this process holds
    one at a time.

    Args:
        records: the documents.
        block_size: documents of a block.
    """
    import pyarrow
    import ray

    def block(rows: list[Record]) -> Any:
        columns = {"id": [row.id for row in rows], "text": [row.text for row in rows]}
        return ray.put(pyarrow.table(columns, schema=pyarrow.schema([("id", "string"), ("text", "string")])))

    blocks: list[Any] = []
    rows: list[Record] = []
    for record in records:
        rows.append(record)
        if len(rows) == block_size:
            blocks.append(block(rows))
            rows = []
    if rows or not blocks:
        blocks.append(block(rows))
    return ray.data.from_arrow_refs(blocks)


def iterate_results(dataset: Any, job: ExtractionJob, pool: ActorPool) -> Iterator[dict[str, Any]]:
    """The rows of the results of a job that collects failures, as actors finish their blocks.

    Documents whose actors were lost again and again have no row.

    Raises:
        WorkerError: an actor could not load the model, or failed.
    """
    results = mapped(dataset, job, pool)
    results.context.max_errored_blocks = -1  # the other blocks go on
    for row in results.iter_rows():
        if row["failure"] is not None:
            raise WorkerError(str(row["failure"]), action="results that are there are kept")
        yield row


def _folder(out: str) -> str:
    if re.match(r"[a-z0-9+.-]+://", out):
        raise InvalidArgument(
            f"{out!r} is not a folder",
            action="leave out= away, and write the dataset that is returned: .write_parquet()",
        )
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as error:
        raise DocumentError(f"{out} cannot be written: {error.strerror}") from None
    return os.path.abspath(out)


def _parts(folder: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(folder), "part-*.parquet")))


def _into_folder(dataset: Any, job: ExtractionJob, pool: ActorPool, *, resume: bool) -> Any:
    import ray

    from constrained.extraction.files.parquet_files import read_rows, write_results

    folder = job.folder
    assert folder is not None
    parts = _parts(folder)
    if parts and not resume:
        raise DocumentError(
            f"{folder} has results already", action="pass resume=True, or name another folder"
        )
    options = {
        **job.extractor,
        **job.settings,
        "details": ",".join(job.details) or None,
        **job.engine_settings(),
    }
    settings = run_settings(job.model, job.constraint, options)
    with open_run(os.path.join(folder, "_run.json"), settings, lambda: not parts):
        done = frozenset(row["id"] for part in parts for row in read_rows(part, ("id",)))
        job = replace(job, done=done)
        read = sum(row["read"] for row in iterate_results(dataset, job, pool))
        if not (parts := _parts(folder)):
            write_results((), os.path.join(folder, "part-empty.parquet"), job.details)
            parts = _parts(folder)
        lost = dataset.count() - read
        if lost > 0:
            raise WorkerError(
                f"{lost} documents have no result: their actors were lost {BLOCK_ATTEMPTS} times",
                action="look for the reason in Ray's logs, such as too little memory; then pass resume=True",
            )
        # Ray's own reader needs clients of remote file systems in some versions.
        return ray.data.from_items([{"part": part} for part in parts]).map_batches(
            _read_parts, batch_size=1, batch_format="pyarrow", fn_args=(job.details,)
        )


def _read_parts(table: Any, details: Sequence[str]) -> Any:
    from constrained.extraction.files.parquet_files import arrow_table, read_rows

    return arrow_table([row for part in table["part"].to_pylist() for row in read_rows(part)], details)
