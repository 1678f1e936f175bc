"""Hostile cases, or real schemas, under several engines, one after another, as a table."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from constrained.bench.harness.settings import Progress, no_progress
from constrained.bench.harness.tables import ReportTable, format_number
from constrained.bench.harness.worker_io import error_text
from constrained.bench.hostile.case import Case
from constrained.bench.hostile.measure import OK, REFUSED, Measured, compile_source, measure
from constrained.bench.hostile.settings import HostileSettings
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.engines.base import Engine
from constrained.bench.masks.workload import VocabularyData

Rows = Mapping[str, Mapping[str, Measured]]
"""What became of each case under each engine: name of the case -> name of the engine -> figures."""


GOALS = Measured(OK, compile=1.0, mask=0.05, within=0.05, memory=256 << 20)
"""What no constraint should exceed."""

_QUANTILES = (0.5, 0.99, 0.999, 1.0)


def measure_all(
    cases: Mapping[str, Case],
    settings: HostileSettings,
    tokens: VocabularyData,
    progress: Progress = no_progress,
    on_rows: Callable[[Rows], None] = lambda rows: None,
) -> tuple[Rows, dict[str, str]]:
    """Measures cases under engines by name, case after case.

    Args:
        cases: by name.
        settings: engines, and limits of each case.
        tokens: the vocabulary.
        progress: called with an engine, and the numbers of measured and all cases.
        on_rows: called with the rows of each case when all engines have measured it.

    Returns:
        The figures, and engine -> why it was not measured.
    """
    loaded: dict[str, Engine] = {}
    skipped = {}
    for name in settings.engines:
        try:
            loaded[name] = load_engine(name)(tokens, 1)
        except Exception as error:
            skipped[name] = error_text(error, with_type=True)
            continue
        _warm(loaded[name])
    rows: dict[str, dict[str, Measured]] = {}
    for done, (case, what) in enumerate(cases.items()):
        rows[case] = {}
        for name, engine in loaded.items():
            gc.collect()
            progress(name, done, len(cases))
            rows[case][name] = measure(what, engine, tokens.tokens, settings)
        on_rows({case: rows[case]})
    return rows, skipped


def _warm(engine: Engine) -> None:
    """Loads what engines load at first use, before processes are forked that would each load it again."""
    for notation, source in (("json_schema", {"type": "integer"}), ("regex", "a"), ("gbnf", 'root ::= "a"')):
        with contextlib.suppress(Exception):
            compile_source(engine, notation, source)


def table(rows: Rows) -> ReportTable:
    """A line for each case: compile, worst mask, worst mask under a budget (ms), memory (MiB); or what became of it."""
    engines = _engines(rows)
    lines = [
        (f"`{case}`".replace("|", "\\|"), [_cell(found[engine]) for engine in engines])
        for case, found in rows.items()
    ]
    return ReportTable(
        "compile / worst mask / worst mask under a budget, ms / memory, MiB",
        engines,
        lines,
    )


def tally(rows: Rows) -> str:
    """The last line of the table: how many cases of each engine ended in each way."""
    engines = _engines(rows)
    cells = [_tally([found[engine] for found in rows.values()]) for engine in engines]
    return ReportTable("", engines, [("together", cells)]).markdown_lines()[0]


def exceeds(found: Measured) -> bool:
    """Whether a case was not followed to its end, though it was not refused either, or exceeds one of the `GOALS`."""
    if found.outcome not in (OK, REFUSED):
        return True
    return (
        any((one or 0.0) > (most or 0.0) for one, most in zip(_times(found), _times(GOALS), strict=True))
        or found.memory > GOALS.memory
    )


def quantiles(rows: Rows) -> list[str]:
    """Lines of the table for quantiles of each of its figures, over the cases that ended well."""
    engines = _engines(rows)
    lines = []
    for q in _QUANTILES:
        cells = []
        for engine in engines:
            ended = [found[engine] for found in rows.values() if found[engine].outcome == OK]
            columns = [
                [found.compile for found in ended],
                [found.mask for found in ended],
                [found.within for found in ended],
            ]
            times = [_quantile([time for time in column if time is not None], q) for column in columns]
            cells.append(_figures(times, _quantile([found.memory for found in ended], q)))
        lines.append(("max" if q == 1 else f"p{q * 100:g}", cells))
    return ReportTable("", engines, lines).markdown_lines()


def _engines(rows: Rows) -> list[str]:
    return list(dict.fromkeys(engine for found in rows.values() for engine in found))


def _quantile(values: Sequence[float], q: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None


def _times(found: Measured) -> tuple[float | None, float | None, float | None]:
    return found.compile, found.mask, found.within


def _figures(times: Sequence[float | None], memory: float | None) -> str:
    figures = [format_number(time, 1e-3, 1) for time in times]
    return " / ".join([*figures, format_number(memory, 2**20, 0)])


def _cell(found: Measured) -> str:
    shown = _figures(_times(found), found.memory)
    if found.outcome == OK:
        return shown
    what = found.outcome if found.outcome != REFUSED else found.detail.partition(":")[0]
    if found.compile is None:
        return f"**{what}**" if found.outcome == "stopped" else f"refused: {what}"
    return f"{shown} **{what}, {found.detail.partition(':')[0]}**"


def _tally(found: Sequence[Measured]) -> str:
    counts = Counter(one.outcome for one in found)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
