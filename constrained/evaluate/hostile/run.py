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
) -> tuple[Rows, dict[str, str]]:
    """Measures cases by name under engines by name.

    Args:
        names: of `CASES`.
        engines: of `constrained.evaluate.masks.engines`.
        tokens: the vocabulary.
        limits: of each case.
        seed: of the tokens that are followed.
        progress: called with an engine, and the numbers of measured and all cases.

    Returns:
        The figures, and engine -> why it was not measured.
    """
    rows: dict[str, dict[str, Measured]] = {name: {} for name in names}
    skipped = {}
    for name in engines:
        try:
            engine: Engine = load_engine(name)(tokens, 1)
        except Exception as error:
            skipped[name] = error_text(error, with_type=True)
            continue
        _warm(engine)
        for done, case in enumerate(names):
            gc.collect()
            progress(name, done, len(names))
            rows[case][name] = measure(CASES[case], engine, tokens.tokens, limits, seed)
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
    lines.append(("together", [_tally([found[engine] for found in rows.values()]) for engine in engines]))
    return ReportTable(
        "hostile constraints: compile / worst mask / worst mask under a budget, ms / memory, MiB",
        engines,
        lines,
    )


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
