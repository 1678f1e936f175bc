"""A page of Markdown out of tables, and plots where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from constrained.bench.harness.tables import ReportTable


def markdown_page(
    title: str,
    facts: Sequence[str],
    tables: Iterable[ReportTable],
    *,
    about: str = "",
    skipped: Mapping[str, str] | None = None,
) -> str:
    """A page: title, facts as a list, tables, and what was not measured.

    Args:
        title: of the page.
        facts: how the results were measured, an item each.
        tables: a section each.
        about: a paragraph before the tables.
        skipped: what was not measured -> why.
    """
    lines = [f"# {title}", "", *(f"- {fact}" for fact in facts), *(["", about] if about else [])]
    for table in tables:
        lines += table.markdown()
    if skipped:
        lines += ["", "Not measured:", "", *(f"- {what}: {why}" for what, why in skipped.items())]
    return "\n".join(lines) + "\n"


def draw_bars(panel: Any, heights: Mapping[str, Sequence[float]], groups: Sequence[str]) -> None:
    """A bar for each name in each group, with the names of the groups below."""
    width = 0.8 / max(1, len(heights))
    for i, (name, values) in enumerate(heights.items()):
        panel.bar([at + i * width for at in range(len(groups))], values, width, label=name)
    centres = [at + 0.4 - width / 2 for at in range(len(groups))]
    panel.set_xticks(centres, groups, rotation=30, ha="right", rotation_mode="anchor")


def save_plot(
    target: Path | IO[bytes],
    draw: Callable[[Any, list[Any]], None],
    *,
    size: tuple[float, float],
    rows: int = 1,
    columns: int = 1,
    dpi: int = 150,
) -> bool:
    """Draws a figure into a file.

    Args:
        target: path, or a file of bytes (PNG).
        draw: called with the figure and its panels, row by row.
        size: inches.
        rows: of panels.
        columns: of panels.
        dpi: resolution.

    Returns:
        False without matplotlib.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    draw(figure, [panel for row in axes for panel in row])
    figure.savefig(target, format="png", dpi=dpi)
    pyplot.close(figure)
    return True
