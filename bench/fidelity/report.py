"""Tables, a page and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from constrained.bench.fidelity.predicate_cost import PredicateCost
from constrained.bench.fidelity.ranking import ranking_tables
from constrained.bench.fidelity.rows import COMPLETED, BlockCost, FidelityRow, TaskDistribution
from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import markdown_page, save_plot
from constrained.bench.harness.tables import ReportTable, format_number
from constrained.cli.intervals import NO_VALUE


@dataclass(slots=True)
class FidelityData:
    """All that a run has measured."""

    distributions: list[TaskDistribution] = field(default_factory=list)
    rows: list[FidelityRow] = field(default_factory=list)
    blocks: list[BlockCost] = field(default_factory=list)
    price: PredicateCost | None = None


def sections(found: FidelityData) -> list[ReportTable]:
    """All tables of a run: the columns are the tasks."""
    tasks = [row.task for row in found.distributions]
    sections = [ReportTable("exact distributions", tasks, _distribution_lines(found.distributions))]
    samplers = list(dict.fromkeys(row.sampler for row in found.rows))
    sizes = sorted({row.texts for row in found.rows})
    for size in sizes[-1:]:
        for title, value in (
            ("total variation to the exact distribution", lambda row: _number(row.distance)),
            ("KL(set || exact distribution), nats", lambda row: _number(row.divergence)),
            ("forwards per text", lambda row: _number(row.forwards / max(1, row.drawn))),
            ("milliseconds per text", lambda row: _number(1000 * row.seconds / max(1, row.drawn))),
            ("p-value of the G-test (unweighted texts)", lambda row: _p(row.fit)),
            ("estimate of P(L) / P(L)", lambda row: _estimate(row)),
        ):
            lines = []
            for sampler in samplers:
                cells = [_cell(found.rows, task, sampler, size, value) for task in tasks]
                if any(cell != NO_VALUE for cell in cells):
                    lines.append((sampler, cells))
            if "variation" in title:
                lines.append(("exact samples", [_number(row.floor.get(size)) for row in found.distributions]))
            if lines:
                sections.append(ReportTable(f"{size} texts: {title}", tasks, lines))
    sections += ranking_tables(found.rows, tasks)
    for sampler in dict.fromkeys(block.sampler for block in found.blocks):
        sections.append(
            ReportTable(f"{sampler}: forwards per text, as texts come", tasks, _blocks(found, sampler, tasks))
        )
    if found.price is not None:
        sections.append(
            ReportTable(
                f"a predicate of {found.price.milliseconds:g} ms", ["masks", "awrs"], _price(found.price)
            )
        )
    return sections


def _distribution_lines(rows: Sequence[TaskDistribution]) -> list[tuple[str, Sequence[str]]]:
    return [
        ("texts", [str(row.texts) for row in rows]),
        ("P(L)", [_number(row.mass) for row in rows]),
        ("total variation of masking", [_number(row.local) for row in rows]),
        ("KL(masking || exact distribution), nats", [_number(row.local_divergence) for row in rows]),
    ]


def _cell(rows: Iterable[FidelityRow], task: str, sampler: str, size: int, value: Any) -> str:
    """The value of a set; of several repetitions the one of median distance."""
    fitting = [row for row in rows if (row.task, row.sampler, row.texts) == (task, sampler, size)]
    drawn = sorted((row for row in fitting if row.outcome == COMPLETED), key=lambda row: row.distance or 0.0)
    if drawn:
        return str(value(drawn[len(drawn) // 2]))
    return fitting[0].outcome if fitting else NO_VALUE


def _blocks(found: FidelityData, sampler: str, tasks: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    blocks = [block for block in found.blocks if block.sampler == sampler]
    spans = sorted({(block.first, block.last) for block in blocks})
    by_place = {(block.task, block.first): block for block in blocks}
    return [
        (
            f"texts {first} to {last}",
            [
                _number(by_place[task, first].per_text) if (task, first) in by_place else NO_VALUE
                for task in tasks
            ],
        )
        for first, last in spans
    ]


def _price(found: PredicateCost) -> list[tuple[str, Sequence[str]]]:
    return [
        ("milliseconds per token", [_number(1000 * found.masked), _number(1000 * found.checked)]),
        ("checks per token", [_number(found.masked_calls), _number(found.checked_calls)]),
        ("times as long", [_number(found.ratio), "1"]),
    ]


def _number(value: float | None) -> str:
    return format_number(value, decimals=5)


def _p(value: float | None) -> str:
    if value is None:
        return NO_VALUE
    return f"{value:.1e}" if value < 0.001 else f"{value:.3f}"


def _estimate(row: FidelityRow) -> str:
    if row.evidence is None:
        return NO_VALUE
    error = "" if row.evidence_error is None else f" ± {row.evidence_error:.2f}"
    return f"{row.evidence:.2f}{error}"


def markdown(tables: Iterable[ReportTable], facts: dict[str, Any]) -> str:
    """The page with all tables and how they were measured."""
    settings = facts["settings"]
    about = [
        summarise_machine(facts["machine"]),
        f"{settings['repeats']} set(s) of each size; of several the one of median distance is shown; "
        f"{settings['time_limit']:g} s a set at most",
        "a forward is one row of a forward pass; sequences with identical prefixes share it",
        f"begun {facts['begun']}, ended {facts['ended']}",
        f"`{facts['command']}`",
    ]
    return markdown_page("Fidelity of samplers", about, tables, skipped=facts["skipped"])


def plot(data: FidelityData, path: Path) -> bool:
    """Plots distance against forwards, a panel for each task, and what learning saves.

    Returns:
        False without matplotlib or data.
    """
    if not data.rows:
        return False
    count = len(data.distributions) + bool(data.blocks)
    columns = min(4, count)
    rows = -(-count // columns)

    def draw(figure: Any, panels: list[Any]) -> None:
        samplers = list(dict.fromkeys(row.sampler for row in data.rows))
        for panel, distribution in zip(panels, data.distributions, strict=False):
            _draw_distances(data.rows, distribution, samplers, panel)
        if data.blocks:
            _draw_learning(data, panels[count - 1])
        for panel in panels[count:]:
            panel.set_axis_off()
        panels[0].legend(fontsize=6)

    return save_plot(path, draw, rows=rows, columns=columns, size=(4.2 * columns, 3.6 * rows), dpi=130)


def _draw_distances(
    rows: Sequence[FidelityRow], distribution: TaskDistribution, samplers: Sequence[str], panel: Any
) -> None:
    """Total variation against forwards, a line for each sampler."""
    for number, sampler in enumerate(samplers):
        points = [
            (row.forwards, row.distance)
            for row in rows
            if (row.task, row.sampler, row.outcome) == (distribution.task, sampler, COMPLETED)
        ]
        if points:
            panel.plot(
                *zip(*sorted(points), strict=True), marker="o", markersize=3, color=f"C{number}", label=sampler,
                linestyle="--" if number >= 10 else "-",
            )  # fmt: skip
    panel.axhline(distribution.local, color="grey", linewidth=0.8, linestyle=":")
    panel.set(
        title=f"{distribution.task}, P(L) = {distribution.mass:.2g}", xscale="log", yscale="log",
        xlabel="forwards", ylabel="total variation",
    )  # fmt: skip
    panel.grid(alpha=0.3)


def _draw_learning(data: FidelityData, panel: Any) -> None:
    """Forwards per sequence while CARS learns, and those of rejection sampling."""
    for number, distribution in enumerate(data.distributions):
        for sampler, style in (("cars", "-"), ("rejection", ":")):
            blocks = [b for b in data.blocks if (b.task, b.sampler) == (distribution.task, sampler)]
            if blocks:
                label = distribution.task if sampler == "cars" else None
                last, cost = [b.last for b in blocks], [b.per_text for b in blocks]
                panel.plot(last, cost, style, color=f"C{number}", label=label)
    panel.set(
        title="cars (rejection dotted)",
        yscale="log",
        xlabel="sequences so far",
        ylabel="forwards per sequence",
    )
    panel.grid(alpha=0.3)
    panel.legend(fontsize=6)
