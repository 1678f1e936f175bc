"""A whole run: all engines answer an item, one after another, before the next one comes; rows are written as they come."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from constrained.bench.harness.repetition import repeats
from constrained.bench.harness.results import RunResults, measure_items, read_rows, settle_folder, write_facts
from constrained.bench.harness.settings import VALUES_FILE, Progress, data_file, measured, no_progress
from constrained.bench.harness.worker_io import error_text
from constrained.bench.speed.forward_counter import ForwardCounter
from constrained.bench.values import items as i
from constrained.bench.values.engines import AnswerSettings, ValueEngine, value_engine
from constrained.bench.values.judging import judge
from constrained.bench.values.rows import ValueRow
from constrained.bench.values.settings import PUBLIC, ValueSettings
from constrained.errors import InvalidArgument
from constrained.models import load
from constrained.models.hugging_face import HuggingFaceModel


@dataclass(frozen=True, slots=True)
class ValueResults(RunResults[ValueRow]):
    """What a run found, and its items by task and id."""

    items: Mapping[tuple[str, str], i.ValueItem] = field(default_factory=dict)


def run(
    settings: ValueSettings, out: Path, progress: Progress = no_progress, *, resume: bool = False
) -> ValueResults:
    """Measures; writes each row as soon as it is known.

    Args:
        settings: what to measure.
        out: folder of the rows.
        progress: shows progress.
        resume: go on in a folder that holds rows: measures what is not there yet.

    Raises:
        InvalidArgument: the data cannot be read, or the folder holds rows and is not to be resumed, or holds rows of
            other settings.
    """
    known = list(i.documents())
    if set(settings.tasks) & set(PUBLIC):
        known += i.public(data_file(settings.data, VALUES_FILE))
    drawn = i.draw(known, settings.tasks, settings.limit, settings.seed)
    kept = measured(settings, "data", "tasks", "engines", "limit") | {"model": Path(settings.model).name}
    facts = settle_folder(out, kept, resume=resume)
    rows = list(read_rows(out, ValueRow))
    done = {(row.task, row.id, row.engine) for row in rows}
    left = [
        (item, name) for item in drawn for name in settings.engines if (item.task, item.id, name) not in done
    ]
    unavailable: dict[str, str] = {}
    if left:
        with ExitStack() as stack:
            model = loaded(settings.model, settings.threads, stack)
            engines: dict[str, ValueEngine] = {}
            for name in settings.engines:
                try:
                    engines[name], facts["versions"][name] = value_engine(name, model)
                except ImportError as error:
                    unavailable[name] = error_text(error)
            write_facts(out, facts)
            left = [(item, name) for item, name in left if name in engines]
            rows += measure_items(
                out, left, lambda item, name: _row(item, name, engines[name], model, settings), progress
            )
    return ValueResults(rows, facts, unavailable, {(item.task, item.id): item for item in known})


def loaded(name: str, threads: int, stack: ExitStack) -> HuggingFaceModel:
    """A model of transformers, with so many threads of torch as long as the stack is not closed.

    Raises:
        InvalidArgument: the name is that of another model.
    """
    import torch

    stack.callback(torch.set_num_threads, torch.get_num_threads())
    torch.set_num_threads(threads)
    model = load(name)
    if not isinstance(model, HuggingFaceModel):
        raise InvalidArgument(
            f"{name!r} is no model of transformers", action="name one that transformers loads"
        )
    _ = model.capabilities, model.no_engine  # trials are no passes of an answer
    return model


def _row(
    item: i.ValueItem, name: str, engine: ValueEngine, model: HuggingFaceModel, settings: ValueSettings
) -> ValueRow:
    row = ValueRow(item.task, item.id, name, settings.temperature)
    seed = zlib.crc32(f"{settings.seed} {item.task} {item.id}".encode())
    try:
        answer = engine(item)
    except Exception as error:  # an engine refuses in whatever way it likes
        row.refused = error_text(error, with_type=True)
    else:
        watch = ForwardCounter(model.model)
        began = time.process_time()
        try:
            with watch:
                found = answer(AnswerSettings(settings.max_tokens, settings.temperature, seed))
        except Exception as error:  # nor do all of them fail in the same way
            row.error = error_text(error, with_type=True)
        else:
            row.text, row.value, row.cut = found.text, found.value, found.cut
            row.prompt_tokens, row.tokens = found.prompt_tokens, found.tokens
            row.repeated = repeats(found.text, found.value)
        row.seconds, row.passes = time.process_time() - began, watch.passes
    row.scores = [asdict(score) for score in judge(item, row.value)]
    return row
