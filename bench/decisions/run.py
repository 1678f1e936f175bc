"""A whole run: an item is answered in all ways before the next one comes; rows are written as they come."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from constrained.bench.decisions.items import label_sets, questions
from constrained.bench.decisions.rows import DecisionRow
from constrained.bench.decisions.settings import DecisionSettings
from constrained.bench.decisions.ways import prepare
from constrained.bench.harness.results import RunResults, measure_items, read_rows, settle_folder
from constrained.bench.harness.settings import VALUES_FILE, Progress, data_file, measured, no_progress
from constrained.bench.harness.worker_io import error_text
from constrained.bench.speed.forward_counter import ForwardCounter
from constrained.bench.values.items import ValueItem, draw
from constrained.bench.values.run import loaded
from constrained.models.hugging_face import HuggingFaceModel


def run(
    settings: DecisionSettings, out: Path, progress: Progress = no_progress, *, resume: bool = False
) -> RunResults[DecisionRow]:
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
    items = [*questions(data_file(settings.data, VALUES_FILE)), *label_sets()]
    drawn = draw(items, settings.tasks, settings.limit, settings.seed)
    kept = measured(settings, "data", "tasks", "ways", "limit") | {"model": Path(settings.model).name}
    facts = settle_folder(out, kept, resume=resume)
    rows = list(read_rows(out, DecisionRow))
    done = {(row.task, row.id, row.way) for row in rows}
    left = [(item, way) for item in drawn for way in settings.ways if (item.task, item.id, way) not in done]
    if left:
        with ExitStack() as stack:
            model = loaded(settings.model, settings.threads, stack)
            rows += measure_items(out, left, lambda item, way: _row(item, way, model), progress)
    return RunResults(rows, facts)


def _row(item: ValueItem, way: str, model: HuggingFaceModel) -> DecisionRow:
    row = DecisionRow(item.task, item.id, way)
    watch = ForwardCounter(model.model)
    try:
        answer = prepare(way, model, item)
        began = time.process_time()
        with watch:
            row.answers = answer()
    except Exception as error:  # the other ways go on
        row.error = error_text(error, with_type=True)
    else:
        row.seconds, row.passes = time.process_time() - began, watch.passes
    return row
