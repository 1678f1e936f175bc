"""A whole run: all engines answer a puzzle, one after another, before the next one comes; rows are written as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from constrained.bench.harness.repetition import repeats
from constrained.bench.harness.results import RunResults, measure_items, read_rows, settle_folder, write_facts
from constrained.bench.harness.settings import Progress, check_names, measured, no_progress
from constrained.bench.harness.worker_io import error_text
from constrained.bench.jsonschemabench import generating
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.workload import VocabularyData
from constrained.bench.quality.settings import QualitySettings
from constrained.bench.quality.tasks import TASKS, QualityItem, make_item, prompt_ids
from constrained.bench.values.reading import read_object
from constrained.models import LanguageModel, load

OURS = "constrained"


@dataclass(slots=True)
class QualityRow:
    """The answer of one engine to one puzzle.

    Attributes:
        task, id, engine: what was answered, by whom.
        text: as far as it came.
        answer: the one in the first object of the text; None: there is none.
        right: whether it is the right one.
        cut: the limit of tokens changed or ended the text.
        repeated: a phrase or an item comes more than five times in a row.
        error: why there is no text.
        tokens: that were written.
    """

    task: str
    id: str
    engine: str
    text: str = ""
    answer: str | None = None
    right: bool = False
    cut: bool = False
    repeated: bool = False
    error: str = ""
    tokens: int = 0


def run(
    settings: QualitySettings, out: Path, progress: Progress = no_progress, *, resume: bool = False
) -> RunResults[QualityRow]:
    """Measures; writes each row as soon as it is known.

    Args:
        settings: what to measure.
        out: folder of the rows.
        progress: shows progress.
        resume: go on in a folder that holds rows: measures what is not there yet.

    Raises:
        InvalidArgument: a task is unknown, or the folder holds rows and is not to be resumed, or holds rows of other
            settings.
    """
    check_names(settings.tasks, TASKS)
    kept = measured(settings, "tasks", "engines", "n") | {"model": Path(settings.model).name}
    facts = settle_folder(out, kept, resume=resume)
    rows = list(read_rows(out, QualityRow))
    done = {(row.task, row.id, row.engine) for row in rows}
    items = [make_item(task, i, settings.seed) for i in range(settings.n) for task in settings.tasks]
    wanted = [(item, name) for item in items for name in settings.engines]
    left = [(item, name) for item, name in wanted if (item.task, item.id, name) not in done]
    model, unavailable = load(settings.model), {}
    engines: dict[str, _Engine] = {}
    for name in settings.engines:
        try:
            engines[name], facts["versions"][name] = _engine(name, model)
        except ImportError as error:
            unavailable[name] = error_text(error)
    write_facts(out, facts)

    def row(item: QualityItem, name: str) -> QualityRow:
        return _row(item, name, engines[name], prompt_ids(model, item, settings.shots), settings)

    rows += measure_items(out, [(item, name) for item, name in left if name in engines], row, progress)
    return RunResults(rows, facts, unavailable)


_Engine = Callable[[str], Callable[[list[int], int], generating.TimedCompletion]]
"""From a task, whose schema it compiles once, to a call that continues a prompt within a limit."""


def _engine(name: str, model: LanguageModel) -> tuple[_Engine, str]:
    """An engine and its version."""
    kind = load_engine(name)
    engine = kind(VocabularyData.from_vocabulary(model.vocabulary, getattr(model, "tokenizer", None)), 1)

    @cache
    def compiled(task: str) -> Callable[[list[int], int], generating.TimedCompletion]:
        schema = make_item(task, 0, 0).schema
        if name == OURS:
            generator = generating.compile_constrained(model, schema)
            return lambda prompt, limit: generating.generate_constrained(generator, prompt, limit)
        made = engine.compile(schema, json.dumps(schema))
        return lambda prompt, limit: generating.generate_with_masks(model, made, prompt, limit)

    return compiled, kind.version


def _row(
    item: QualityItem, name: str, engine: _Engine, prompt: list[int], settings: QualitySettings
) -> QualityRow:
    row = QualityRow(item.task, item.id, name)
    try:
        found = engine(item.task)(prompt, settings.max_tokens)
    except Exception as error:  # an engine refuses in whatever way it likes
        row.error = error_text(error, with_type=True)
        return row
    row.text, row.cut, row.tokens = found.text, found.cut, found.tokens
    value = read_object(found.text)
    if isinstance(value, dict) and "answer" in value:
        row.answer = str(value["answer"])
        row.right = row.answer.strip(" ().").lower() == item.answer.lower()
    row.repeated = repeats(found.text, value)
    return row
