"""Tables for the terminal, a page with a plot, and the answers of all engines side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import draw_bars, markdown_page, save_plot
from constrained.bench.harness.tables import ReportTable, format_paired_difference
from constrained.bench.values.engines import OURS
from constrained.bench.values.rows import ValueRow
from constrained.bench.values.run import ValueResults
from constrained.bench.values.settings import TASKS
from constrained.cli.intervals import NO_VALUE

PAGE = "values.md"
PLOT = "values.png"
ANSWERS = "answers.md"
ALL_TASKS = "all tasks"

_HEADS = (
    "items", "fields right", "ours more", "invented", "whole", "cut", "repeated", "refused", "errors", "tokens", "passes", "CPU s",
)  # fmt: skip
_ABOUT = """\
Fields right: of those that are asked for, and their share. Ours more: this library's share less that of the engine, in points,
over the items that both have rows of, with a 95 % interval by a bootstrap over the items. Invented: fields that nobody asked for. Whole: answers in which nothing is
wrong, missing or invented. Cut: the limit of tokens changed or ended the answer; this library raises an error then, and
there is no value; an object that another engine had closed before counts. Repeated: a phrase or an item more than five
times in a row. A refused schema has all of its fields missing. Tokens, passes and seconds of processor time are sums; passes of vLLM are not counted."""


def sections(rows: Sequence[ValueRow]) -> list[ReportTable]:
    """A table for all rows, and one for each task."""
    tasks = [task for task in TASKS if any(row.task == task for row in rows)]
    found = [_section(ALL_TASKS, rows)]
    if len(tasks) > 1:
        found += [_section(task, [row for row in rows if row.task == task]) for task in tasks]
    return found


def _section(title: str, rows: Sequence[ValueRow]) -> ReportTable:
    by_engine: dict[str, list[ValueRow]] = {}
    for row in rows:
        by_engine.setdefault(row.engine, []).append(row)
    ours = {(row.task, row.id): row for row in by_engine.get(OURS, ())}
    lines = [(engine, _cells(some, ours)) for engine, some in by_engine.items()]
    return ReportTable(title, _HEADS, lines)


def _cells(rows: Sequence[ValueRow], ours: dict[tuple[str, str], ValueRow]) -> list[str]:
    right, asked = sum(row.right for row in rows), sum(row.asked for row in rows)
    counts = [
        sum(row.count("invented") for row in rows),
        sum(row.whole for row in rows),
        sum(row.cut for row in rows),
        sum(row.repeated for row in rows),
        sum(bool(row.refused) for row in rows),
        sum(bool(row.error) for row in rows),
        sum(row.tokens for row in rows),
        sum(row.passes for row in rows),
    ]
    share = f"{right} of {asked} ({100 * right / asked:.1f} %)" if asked else NO_VALUE
    seconds = f"{sum(row.seconds for row in rows):,.0f}"
    return [str(len(rows)), share, _difference(rows, ours), *(f"{count:,}" for count in counts), seconds]


def _difference(rows: Sequence[ValueRow], ours: dict[tuple[str, str], ValueRow]) -> str:
    """This library's share of right fields less that of an engine's rows, over the items of both."""
    pairs = [(ours[row.task, row.id], row) for row in rows if (row.task, row.id) in ours]
    asked = [row.asked for _, row in pairs]
    if rows[0].engine == OURS:
        return NO_VALUE
    return format_paired_difference([mine.right - row.right for mine, row in pairs], asked)


def write(results: ValueResults, out: Path) -> list[ReportTable]:
    """Writes page, plot and answers into an existing folder; returns the tables."""
    tables = sections(results.rows)
    settings = results.facts["settings"]
    drawn = f"at temperature {settings['temperature']:g}" if settings["temperature"] else "greedy"
    about = [
        f"{settings['model']}, {drawn}, {settings['max_tokens']} tokens an answer, seed {settings['seed']}",
        f"engines: {', '.join(f'{name} {version}'.strip() for name, version in results.facts['versions'].items())}",
        summarise_machine(results.facts["machine"]),
    ]
    page = markdown_page("Values", about, tables, about=_ABOUT, skipped=results.unavailable)
    (out / PAGE).write_text(page, encoding="utf-8")
    (out / ANSWERS).write_text(_answers(results), encoding="utf-8")
    save_plot(out / PLOT, lambda _, panels: _draw(results.rows, panels[0]), size=(11, 4.5))
    return tables


def _answers(results: ValueResults) -> str:
    """What every engine wrote for each item, beside what is right."""
    by_item: dict[tuple[str, str], list[ValueRow]] = {}
    for row in results.rows:
        by_item.setdefault((row.task, row.id), []).append(row)
    lines = ["# Answers"]
    for key, rows in by_item.items():
        lines += ["", f"## {' '.join(key)}"]
        if key in results.items:
            item = results.items[key]
            lines += ["", item.text, "", f"right: `{json.dumps(item.gold, ensure_ascii=False)}`"]
        for row in rows:
            marks = [name for name in ("cut", "repeated", "refused", "error") if getattr(row, name)]
            said = f"{row.right} of {row.asked}, {row.count('invented')} invented"
            lines += ["", f"{row.engine}: {', '.join([said, *marks])}", "", "```"]
            lines += [row.refused or row.error or row.text, "```"]
    return "\n".join(lines) + "\n"


def _draw(rows: Sequence[ValueRow], panel: Any) -> None:
    from matplotlib import ticker

    tasks = [task for task in TASKS if any(row.task == task for row in rows)]
    shares: dict[str, list[float]] = {}
    for engine in dict.fromkeys(row.engine for row in rows):
        for task in tasks:
            some = [row for row in rows if (row.engine, row.task) == (engine, task)]
            asked = sum(row.asked for row in some)
            shares.setdefault(engine, []).append(sum(row.right for row in some) / asked if asked else 0.0)
    draw_bars(panel, shares, tasks)
    panel.set(ylabel="fields right, of those asked for", ylim=(0, 1))
    panel.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
    panel.grid(axis="y", alpha=0.3)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(ncols=len(shares), loc="upper right")
