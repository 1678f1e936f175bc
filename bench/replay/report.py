"""Tables, page and plot of `bench replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import markdown_page, save_plot
from constrained.bench.harness.results import RunRecord, make_folder
from constrained.bench.harness.tables import ReportTable
from constrained.bench.replay.places import PLACES
from constrained.bench.replay.run import ReplayResults


def sections(results: ReplayResults) -> list[ReportTable]:
    """Tokens per forward pass by scenario, then nodes, promises and time per pass."""
    scenarios = list(results.by_scenario)
    names = list(next(iter(results.by_scenario.values()), {}))
    heads = [f"{name} ({results.texts[name]})" for name in scenarios]
    tokens: list[tuple[str, list[str]]] = [("no speculation", ["1.00"] * len(scenarios))]
    drafting: list[tuple[str, list[str]]] = []
    nodes: list[tuple[str, list[str]]] = []
    promised: list[tuple[str, list[str]]] = []
    for name in names:
        rows = [results.by_scenario[scenario][name] for scenario in scenarios]
        tokens.append((name, [f"{row.draws / max(1, row.passes):.2f}" for row in rows]))
        drafting.append(
            (name, [f"{1e3 * (row.drafting + row.walking) / max(1, row.passes):.2f}" for row in rows])
        )
        promised.append(
            (
                name,
                [
                    f"{row.promised / max(1, row.passes):.2f} / {row.accepted / max(1, row.passes):.2f}"
                    for row in rows
                ],
            )
        )
        nodes.append((name, [f"{row.nodes / max(1, row.passes):.1f}" for row in rows]))
    passes = [
        (
            name,
            [
                f"{one.passes / max(1, one.texts):.1f}"
                for one in (rows[name] for rows in results.by_scenario.values())
            ],
        )
        for name in names
    ]
    whole = [results.by_scenario[scenario][names[-1]] for scenario in scenarios]
    ends = [
        (place, [f"{100 * one.ends[place] / max(1, one.passes):.1f}" for one in whole])
        for place in PLACES
        if any(one.ends[place] for one in whole)
    ]
    return [
        ReportTable("tokens per forward pass", heads, tokens),
        ReportTable("passes per text", heads, passes),
        *(
            [
                ReportTable(
                    f"% of passes that end with a token not drafted, by its place: {names[-1]}", heads, ends
                )
            ]
            if ends
            else []
        ),
        ReportTable("nodes per pass", heads, nodes),
        ReportTable("draft tokens per pass: promised / accepted", heads, promised),
        ReportTable("host ms per pass (processor time: draft, follow, learn)", heads, drafting),
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
        width = 0.9 / max(1, len(names))
        for i, name in enumerate(names):
            heights = [rows[name].draws / max(1, rows[name].passes) for rows in results.by_scenario.values()]
            panel.bar([x + i * width for x in range(len(heights))], heights, width, label=name)
        panel.set_xticks([x + 0.45 for x in range(len(results.by_scenario))], list(results.by_scenario))
        panel.set_ylabel("tokens per forward pass")
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.legend(fontsize=8)

    return save_plot(path, draw, size=(11, 4.5))
