"""Tables, page and plot of `bench replay`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import draw_bars, markdown_page, save_plot
from constrained.bench.harness.results import RunRecord, make_folder
from constrained.bench.harness.tables import ReportTable
from constrained.bench.replay.measure import ReplayCounts
from constrained.bench.replay.run import ReplayResults


def sections(results: ReplayResults) -> list[ReportTable]:
    """Tokens per forward pass by scenario, then nodes, promises and time per pass."""
    scenarios = list(results.by_scenario)
    names = list(next(iter(results.by_scenario.values()), {}))
    heads = [f"{name} ({results.texts[name]})" for name in scenarios]

    def lines(cell: Callable[[ReplayCounts, int], str]) -> list[tuple[str, list[str]]]:
        """Of the counts of a configuration and its passes, in each scenario."""
        return [
            (name, [cell(rows[name], max(1, rows[name].passes)) for rows in results.by_scenario.values()])
            for name in names
        ]

    tokens = [("no speculation", ["1.00"] * len(scenarios)), *lines(lambda row, n: f"{row.draws / n:.2f}")]
    return [
        ReportTable("tokens per forward pass", heads, tokens),
        ReportTable("passes per text", heads, lines(lambda row, _: f"{row.passes / max(1, row.texts):.1f}")),
        ReportTable("nodes per pass", heads, lines(lambda row, n: f"{row.nodes / n:.1f}")),
        ReportTable(
            "draft tokens per pass: promised / accepted",
            heads,
            lines(lambda row, n: f"{row.promised / n:.2f} / {row.accepted / n:.2f}"),
        ),
        ReportTable(
            "host ms per pass (processor time: draft, follow, learn)",
            heads,
            lines(lambda row, n: f"{1e3 * (row.drafting + row.walking) / n:.2f}"),
        ),
    ]


def write(results: ReplayResults, folder: Path, record: RunRecord) -> None:
    """Writes results, a page of Markdown and a plot into a folder.

    Raises:
        InvalidArgument: the folder cannot be written.
    """
    make_folder(folder)
    results_json = record.facts() | results.as_json()
    (folder / "replay.json").write_text(json.dumps(results_json, indent=2) + "\n", encoding="utf-8")
    about = [
        f"`{record.command}`",
        summarise_machine(record.machine),
        f"schemas left out: {results.skipped}",
    ]
    page = markdown_page("Tokens per forward pass", about, sections(results))
    (folder / "replay.md").write_text(page, encoding="utf-8")
    plot(results, folder / "replay.png")


def plot(results: ReplayResults, path: Path) -> bool:
    """Plots tokens per pass, a group of bars for each scenario; False without matplotlib."""
    names = list(next(iter(results.by_scenario.values()), {}))

    def draw(figure: Any, panels: list[Any]) -> None:
        (panel,) = panels
        heights = {
            name: [rows[name].draws / max(1, rows[name].passes) for rows in results.by_scenario.values()]
            for name in names
        }
        draw_bars(panel, heights, list(results.by_scenario))
        panel.set_ylabel("tokens per forward pass")
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.legend(fontsize=8)

    return save_plot(path, draw, size=(11, 4.5))
