"""A table of results, the format of its numbers, medians and differences with their intervals, and how a terminal shows it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from constrained.cli.intervals import NO_VALUE, QUANTILE, paired_share_interval

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


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median, by order statistics: two of the values, whatever the distribution.

    Returns:
        None if fewer than six values cannot bound it.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, term, rank = 0.0, 0.5**n if n < 1000 else 0.0, -1
    if n >= 1000:  # the normal approximation of the binomial distribution
        rank = int(n / 2 - QUANTILE * math.sqrt(n) / 2) - 1
    else:
        for k in range(n // 2):
            tail += term
            if tail > 0.025:
                break
            rank, term = k, term * (n - k) / (k + 1)
    return None if rank < 0 else (ordered[rank], ordered[n - 1 - rank])


def format_paired_difference(differences: Sequence[int], sizes: Sequence[int]) -> str:
    """The difference of two shares over the same items in points, and its interval; see `paired_share_interval`."""
    if not sum(sizes):
        return NO_VALUE
    low, high = paired_share_interval(differences, sizes)
    return f"{100 * sum(differences) / sum(sizes):+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def format_median_interval(values: Sequence[float], scale: float = 1.0) -> str:
    """The median and its interval, three significant digits each."""
    if not values:
        return NO_VALUE
    around = median_interval(values)
    bounds = f" ({around[0] * scale:.3g}–{around[1] * scale:.3g})" if around else ""
    return f"{statistics.median(values) * scale:.3g}{bounds}"
