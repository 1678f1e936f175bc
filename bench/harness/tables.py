"""A table of results, the format of its numbers, and how a terminal shows it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from constrained.cli.intervals import NO_VALUE

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table.

    Attributes:
        title: shown above it.
        columns: heads of the columns, without the one of the labels.
        lines: a label, and a cell for each column.
    """

    title: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[str]]]

    def markdown(self) -> list[str]:
        """The lines of a Markdown section."""
        return [*self.markdown_head(), *self.markdown_lines()]

    def markdown_head(self) -> list[str]:
        """The title and the heads of the columns."""
        return [
            "",
            f"## {self.title[0].upper()}{self.title[1:]}",
            "",
            "| | " + " | ".join(self.columns) + " |",
            "|---|" + "---:|" * len(self.columns),
        ]

    def markdown_lines(self) -> list[str]:
        """The lines below the heads."""
        return [f"| {label} | " + " | ".join(cells) + " |" for label, cells in self.lines]

    def rich(self) -> RenderableType:
        """The table for a terminal: labels of up to 5 characters are indented, averages are bold."""
        from rich.table import Table

        drawn = Table(title=self.title, title_justify="left", box=None, pad_edge=False)
        drawn.add_column("")
        for column in self.columns:
            drawn.add_column(column, justify="right")
        for label, cells in self.lines:
            bold = ": avg" in label
            indent = "" if bold or len(label) > 5 else "  "
            drawn.add_row(indent + label, *cells, style="bold" if bold else "")
        return drawn


def format_number(value: float | None, scale: float = 1.0, decimals: int = 3) -> str:
    """Three significant digits without an exponent.

    Args:
        value: None is shown as `NO_VALUE`.
        scale: divides the value.
        decimals: most digits after the point.
    """
    if value is None:
        return NO_VALUE
    scaled = value / scale
    if not math.isfinite(scaled):
        return "inf"
    digits = max(0, 2 - math.floor(math.log10(scaled))) if 0 < scaled < 100 else 0
    return f"{scaled:,.{min(digits, decimals)}f}"
