"""A table for each task, and the answers of all engines side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import markdown_page
from constrained.bench.harness.results import RunResults
from constrained.bench.harness.tables import ReportTable, format_paired_difference
from constrained.bench.masks.engines.unconstrained import UNCONSTRAINED
from constrained.bench.quality.run import OURS, QualityRow
from constrained.bench.quality.tasks import make_item
from constrained.cli.intervals import NO_VALUE, format_share_interval

PAGE = "quality.md"
ANSWERS = "answers.md"
_HEADS = ("puzzles", "right", "ours more", "left as is", "no answer", "cut", "repeated", "errors", "tokens")
_ABOUT = """\
Right: the answer in the first object of the text; after the share stands its 95 % interval (Wilson). Ours more: this library's
share less that of the engine in points, over the puzzles of both, with a 95 % interval by a bootstrap over the puzzles. Left as
is: of the answers that the model alone gives, those to which the engine has the same text. No answer: no whole object. Cut: the limit
of tokens changed or ended the text; this library closes it in time, and its answer counts. Repeated: a phrase more than five
times in a row."""


def sections(rows: Sequence[QualityRow]) -> list[ReportTable]:
    """A table for each task."""
    found = []
    for task in dict.fromkeys(row.task for row in rows):
        by_engine: dict[str, dict[str, QualityRow]] = {}
        for row in rows:
            if row.task == task:
                by_engine.setdefault(row.engine, {})[row.id] = row
        found.append(ReportTable(task, _HEADS, [(name, _cells(name, by_engine)) for name in by_engine]))
    return found


def _cells(name: str, by_engine: dict[str, dict[str, QualityRow]]) -> list[str]:
    rows, ours, alone = by_engine[name], by_engine.get(OURS, {}), by_engine.get(UNCONSTRAINED, {})
    differences = [ours[i].right - row.right for i, row in rows.items() if i in ours]
    answered = [
        row.text == alone[i].text for i, row in rows.items() if i in alone and alone[i].answer is not None
    ]
    marks = [
        (row.answer is None, row.cut, row.repeated, bool(row.error), row.tokens) for row in rows.values()
    ]
    return [
        str(len(rows)),
        format_share_interval(sum(row.right for row in rows.values()), len(rows)),
        NO_VALUE if name == OURS else format_paired_difference(differences, [1] * len(differences)),
        NO_VALUE if name == UNCONSTRAINED else f"{sum(answered)} of {len(answered)}",
        *(str(sum(column)) for column in zip(*marks, strict=True)),
    ]


def write(results: RunResults[QualityRow], out: Path) -> list[ReportTable]:
    """Writes the page and the answers into an existing folder; returns the tables."""
    tables, settings = sections(results.rows), results.facts["settings"]
    versions = ", ".join(f"{name} {version}".strip() for name, version in results.facts["versions"].items())
    about = [
        f"{settings['model']}, greedy, {settings['max_tokens']} tokens an answer, {settings['shots']} examples, "
        f"seed {settings['seed']}",
        f"engines: {versions}",
        summarise_machine(results.facts["machine"]),
    ]
    page = markdown_page("Quality", about, tables, about=_ABOUT, skipped=results.unavailable)
    (out / PAGE).write_text(page, encoding="utf-8")
    lines = ["# Answers"]
    for row in sorted(results.rows, key=lambda row: (row.task, int(row.id))):
        item = make_item(row.task, int(row.id), settings["seed"])
        marks = [name for name in ("right", "cut", "repeated") if getattr(row, name)]
        lines += ["", f"## {row.task} {row.id}, {row.engine}: {', '.join(marks) or 'wrong'}", ""]
        lines += [item.question, "", f"right: `{item.answer}`", "", "```", row.error or row.text, "```"]
    (out / ANSWERS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tables
