"""Two runs beside each other: what became of the same schemas under the same model and engine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from constrained.bench.harness.results import FACTS, read_rows
from constrained.bench.harness.tables import ReportTable, format_median_interval, median_interval
from constrained.bench.jsonschemabench import rows as r
from constrained.cli.intervals import NO_VALUE, format_share_interval, sign_test
from constrained.errors import InvalidArgument

_SHOWN = 20
"""Schemas listed by name whose status changed, of each model and engine."""

_COUNTED: tuple[tuple[str, Callable[[r.SchemaBenchRow], bool]], ...] = (
    ("declared", lambda row: row.declared),
    ("empirical", lambda row: row.status == r.OK),
    ("empirical, not cut", lambda row: row.status == r.OK and not row.cut),
)
_TIMES: tuple[tuple[str, Callable[[r.SchemaBenchRow], float | None]], ...] = (
    ("GCT, ms", lambda row: row.compile_seconds),
    ("TTFT, ms", lambda row: row.first_seconds),
    ("TPOT, ms", lambda row: row.token_seconds),
)


def compare(first: Path, second: Path) -> list[ReportTable]:
    """Tables of two folders: for each model and engine that both have, the schemas that both have.

    The last column of a count says how many schemas gained and lost it, and the p-value of the sign test; that of a
    time is the median of the ratios, second by first, of the schemas that gave a valid text in both, with its interval.

    Args:
        first: a folder of `run`.
        second: another.

    Raises:
        InvalidArgument: a folder holds no rows, or they have nothing in common.
    """
    runs = [_rows(first), _rows(second)]
    tables = []
    pairs = dict.fromkeys((model, engine) for model, engine, _ in runs[0])
    for model, engine in pairs:
        ids = [id for m, e, id in runs[0] if (m, e) == (model, engine) and (model, engine, id) in runs[1]]
        if ids:
            sides = [[run[model, engine, id] for id in ids] for run in runs]
            tables.append(_table(f"{engine}, {model}", (str(first), str(second)), *sides))
            if changes := _changes(*sides):
                tables.append(
                    ReportTable(
                        f"{engine}, {model}: {len(changes)} schemas whose status changed",
                        (str(first), str(second)),
                        changes[:_SHOWN],
                    )
                )
    if not tables:
        raise InvalidArgument(
            f"{str(first)!r} and {str(second)!r} have no model, engine and schema in common",
            action="compare runs over the same data with the same models",
        )
    return tables


def differing_settings(first: Path, second: Path) -> list[str]:
    """A line for each setting in which two runs differ."""
    one, other = (_facts(folder)["settings"] for folder in (first, second))
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return [f"{name}: {one.get(name)} | {other.get(name)}" for name in names]


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        facts["settings"].keys()
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise InvalidArgument(
            f"{str(folder)!r} holds no run: {error}",
            action="name a folder of `constrained bench jsonschemabench --out`",
        ) from None
    return facts


def _rows(folder: Path) -> dict[tuple[str, str, str], r.SchemaBenchRow]:
    _facts(folder)
    try:
        return {(row.model, row.engine, row.id): row for row in read_rows(folder, r.SchemaBenchRow)}
    except TypeError as error:
        raise InvalidArgument(f"the rows of {str(folder)!r} cannot be read: {error}") from None


def _table(
    title: str, heads: Sequence[str], one: list[r.SchemaBenchRow], other: list[r.SchemaBenchRow]
) -> ReportTable:
    lines: list[tuple[str, Sequence[str]]] = [("schemas of both", [str(len(one)), str(len(other)), ""])]
    for label, test in _COUNTED:
        cells = [format_share_interval(sum(map(test, side)), len(side)) for side in (one, other)]
        gained = sum(test(b) and not test(a) for a, b in zip(one, other, strict=True))
        lost = sum(test(a) and not test(b) for a, b in zip(one, other, strict=True))
        p = sign_test(gained, lost)
        lines.append((label, [*cells, f"+{gained} -{lost}, p = {p:.2g}" if gained or lost else "the same"]))
    both = [(a, b) for a, b in zip(one, other, strict=True) if a.status == b.status == r.OK]
    for label, time in _TIMES:
        timed = [(x, y) for a, b in both if (x := time(a)) is not None and (y := time(b)) is not None]
        cells = [format_median_interval([pair[side] for pair in timed], 1e3) for side in (0, 1)]
        lines.append((label, [*cells, _ratio([y / x for x, y in timed if x > 0])]))
    return ReportTable(title, [*heads, "second to first"], lines)


def _ratio(ratios: list[float]) -> str:
    if not ratios:
        return NO_VALUE
    around = median_interval(ratios)
    bounds = f" ({around[0]:.2f}–{around[1]:.2f})" if around else ""
    return f"x {statistics.median(ratios):.2f}{bounds}"


def _changes(one: list[r.SchemaBenchRow], other: list[r.SchemaBenchRow]) -> list[tuple[str, Sequence[str]]]:
    return [(a.id, [a.status, b.status]) for a, b in zip(one, other, strict=True) if a.status != b.status]
