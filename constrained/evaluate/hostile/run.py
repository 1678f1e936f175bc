"""Hostile cases under several engines, one after another, as a table."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from constrained.evaluate.harness.tables import ReportTable, format_number
from constrained.evaluate.harness.worker_io import error_text
from constrained.evaluate.hostile.case import CASES
from constrained.evaluate.hostile.measure import OK, Limits, Measured, compile_source, measure
from constrained.evaluate.masks.engines import Engine, load_engine
from constrained.evaluate.masks.workload import VocabularyData

Rows = Mapping[str, Mapping[str, Measured]]
"""What became of each case under each engine: name of the case -> name of the engine -> figures."""


def measure_all(
    names: Sequence[str],
    engines: Sequence[str],
    tokens: VocabularyData,
    limits: Limits,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    on_rows: Callable[[Rows], None] = lambda rows: None,
) -> tuple[Rows, dict[str, str]]:
    """Measures cases by name under engines by name, case after case.

    Args:
        names: of `CASES`.
        engines: of `constrained.evaluate.masks.engines`.
        tokens: the vocabulary.
        limits: of each case.
        seed: of the tokens that are followed.
        progress: called with an engine, and the numbers of measured and all cases.
        on_rows: called with the rows of each case when all engines have measured it.

    Returns:
        The figures, and engine -> why it was not measured.
    """
    loaded: dict[str, Engine] = {}
    skipped = {}
    for name in engines:
        try:
            loaded[name] = load_engine(name)(tokens, 1)
        except Exception as error:
            skipped[name] = error_text(error, with_type=True)
            continue
        _warm(loaded[name])
    rows: dict[str, dict[str, Measured]] = {}
    for done, case in enumerate(names):
        rows[case] = {}
        for name, engine in loaded.items():
            gc.collect()
            progress(name, done, len(names))
            rows[case][name] = measure(CASES[case], engine, tokens.tokens, limits, seed)
        on_rows({case: rows[case]})
    return rows, skipped


def _warm(engine: Engine) -> None:
    """Loads what engines load at first use, before processes are forked that would each load it again."""
    for notation, source in (("json_schema", {"type": "integer"}), ("regex", "a"), ("gbnf", 'root ::= "a"')):
        with contextlib.suppress(Exception):
            compile_source(engine, notation, source)


def table(rows: Rows) -> ReportTable:
    """A line for each case: compile, worst mask, worst mask under a budget (ms), memory (MiB); or what became of it."""
    engines = list(dict.fromkeys(engine for found in rows.values() for engine in found))
    lines = [
        (f"`{case}`".replace("|", "\\|"), [_cell(found[engine]) for engine in engines])
        for case, found in rows.items()
    ]
    return ReportTable(
        "hostile constraints: compile / worst mask / worst mask under a budget, ms / memory, MiB",
        engines,
        lines,
    )


def tally(rows: Rows) -> str:
    """The last line of the table: how many cases of each engine ended in each way."""
    engines = list(dict.fromkeys(engine for found in rows.values() for engine in found))
    cells = [_tally([found[engine] for found in rows.values()]) for engine in engines]
    return ReportTable("", engines, [("together", cells)]).markdown_lines()[0]


def _cell(found: Measured) -> str:
    figures = [format_number(value, 1e-3, 1) for value in (found.compile, found.mask, found.within)]
    shown = " / ".join([*figures, format_number(found.memory / 2**20, 1, 0)])
    if found.outcome == OK:
        return shown
    what = found.outcome if found.outcome != "refused" else found.detail.partition(":")[0]
    if found.compile is None:
        return f"**{what}**" if found.outcome == "stopped" else f"refused: {what}"
    return f"{shown} **{what}, {found.detail.partition(':')[0]}**"


def _tally(found: Sequence[Measured]) -> str:
    counts = Counter(one.outcome for one in found)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
