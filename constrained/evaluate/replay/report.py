"""Tables of a replay, for the terminal and as Markdown, and a plot."""

from __future__ import annotations

import json
from pathlib import Path

from constrained.evaluate.masks.machine import describe
from constrained.evaluate.masks.report import ReportTable
from constrained.evaluate.replay.run import ReplayResults


def sections(results: ReplayResults) -> list[ReportTable]:
    """Tokens per pass by scenario, then what they cost."""
    scenarios = list(results.by_scenario)
    names = list(next(iter(results.by_scenario.values()), {}))
    heads = [f"{name} ({results.texts[name]})" for name in scenarios]
    tokens: list[tuple[str, list[str]]] = [("no speculation", ["1.00"] * len(scenarios))]
    drafting: list[tuple[str, list[str]]] = []
    nodes: list[tuple[str, list[str]]] = []
    for name in names:
        rows = [results.by_scenario[scenario][name] for scenario in scenarios]
        tokens.append((name, [f"{row.draws / max(1, row.passes):.2f}" for row in rows]))
        drafting.append(
            (name, [f"{1e3 * (row.drafting + row.walking) / max(1, row.passes):.2f}" for row in rows])
        )
        nodes.append((name, [f"{row.nodes / max(1, row.passes):.1f}" for row in rows]))
    return [
        ReportTable("tokens per forward pass", heads, tokens),
        ReportTable("nodes per pass", heads, nodes),
        ReportTable("host ms per pass (processor time: guess, follow, learn)", heads, drafting),
    ]


def write(results: ReplayResults, folder: Path, command: str) -> None:
    """Writes rows, a page of Markdown and a plot into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = describe()
    rows = results.as_json() | {"machine": facts, "command": command}
    (folder / "replay.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    text = [
        "# Tokens per forward pass",
        "",
        f"- `{command}`",
        f"- {facts['processor']}, {facts['cores']} cores",
    ]
    text.append(f"- schemas left out: {results.skipped}")
    for section in sections(results):
        text += ["", f"## {section.title[0].upper()}{section.title[1:]}", ""]
        text.append("| | " + " | ".join(section.engines) + " |")
        text.append("|---|" + "---:|" * len(section.engines))
        text += [f"| {label} | " + " | ".join(cells) + " |" for label, cells in section.lines]
    (folder / "replay.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    plot(results, folder / "replay.png")


def plot(results: ReplayResults, path: Path) -> bool:
    """Draws tokens per pass, a group of bars for each scenario; False without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 4.5), layout="constrained")
    names = list(next(iter(results.by_scenario.values()), {}))
    width = 0.9 / max(1, len(names))
    for i, name in enumerate(names):
        heights = [rows[name].draws / max(1, rows[name].passes) for rows in results.by_scenario.values()]
        axes.bar([x + i * width for x in range(len(heights))], heights, width, label=name)
    axes.set_xticks([x + 0.45 for x in range(len(results.by_scenario))], list(results.by_scenario))
    axes.set_ylabel("tokens per forward pass")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True
