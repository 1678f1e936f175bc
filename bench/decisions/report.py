"""A table for each task, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from constrained.bench.decisions.rows import DecisionRow, calibration_error, largest_differences, log_loss
from constrained.bench.decisions.settings import NONE, ONE_BY_ONE, TASKS, WAYS
from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import markdown_page
from constrained.bench.harness.results import RunResults
from constrained.bench.harness.tables import ReportTable
from constrained.cli.intervals import NO_VALUE, format_share_interval

PAGE = "decisions.md"
_HEADS = ("questions", "right", "log loss", "calibration error", "errors", "passes", "CPU s")
_ABOUT = """\
Right: the share of questions whose answer is right, with its 95 % interval (Wilson). Log loss: the mean of -log P(the right option), in
nats. Calibration error: by how much the probability of answers differs from their accuracy, on average over ten bins.
Passes of the model and seconds of processor time are sums; the passes over texts that say nothing are among them, once for a type."""


def sections(rows: Sequence[DecisionRow]) -> list[ReportTable]:
    """A table for each task."""
    found = []
    for task in TASKS:
        some = {way: [row for row in rows if (row.task, row.way) == (task, way)] for way in WAYS}
        lines = [(way, _cells(of_way)) for way, of_way in some.items() if of_way]
        if lines:
            found.append(ReportTable(task, _HEADS, lines))
    return found


def _cells(rows: Sequence[DecisionRow]) -> list[str]:
    answers = [answer for row in rows for answer in row.answers]
    right = sum(answer.picked == answer.right for answer in answers)
    return [
        str(len(answers)),
        format_share_interval(right, len(answers)),
        *(NO_VALUE if value is None else f"{value:.3f}" for value in (log_loss(answers), calibration_error(answers))),
        str(sum(bool(row.error) for row in rows)),
        f"{sum(row.passes for row in rows):,}",
        f"{sum(row.seconds for row in rows):,.1f}",
    ]  # fmt: skip


def differences(rows: Sequence[DecisionRow]) -> list[str]:
    """For each task a line on the tree of options and on options one by one, which must say the same."""
    lines = []
    for task in TASKS:
        of_tree = {row.id: row for row in rows if (row.task, row.way) == (task, NONE) and not row.error}
        alone = [row for row in rows if (row.task, row.way) == (task, ONE_BY_ONE) and not row.error]
        found = largest_differences((of_tree[row.id], row) for row in alone if row.id in of_tree)
        if found is not None:
            nats, share = found
            lines.append(
                f"{task}: {ONE_BY_ONE} differs from {NONE} by at most {nats:.2g} nats, {share:.2g} of a probability"
            )
    return lines


def write(results: RunResults[DecisionRow], out: Path) -> list[ReportTable]:
    """Writes the page into an existing folder; returns the tables."""
    tables = sections(results.rows)
    settings = results.facts["settings"]
    about = [
        f"{settings['model']}, seed {settings['seed']}, threads {settings['threads']}",
        summarise_machine(results.facts["machine"]),
        *differences(results.rows),
    ]
    (out / PAGE).write_text(markdown_page("Decisions", about, tables, about=_ABOUT), encoding="utf-8")
    return tables
