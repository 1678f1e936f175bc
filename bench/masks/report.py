"""Tables, page and plot of `bench masks`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import markdown_page, save_plot
from constrained.bench.harness.tables import ReportTable, format_number
from constrained.bench.masks import rows as r
from constrained.bench.masks.summary import (
    COMMIT,
    FIRST,
    MASK,
    QUANTILES,
    STEP,
    EngineSummary,
)
from constrained.cli.intervals import NO_VALUE

_COUNTED = (
    (r.REFUSED, "refused"),
    (r.FAILED, "errors after compiling"),
    (r.TIMEOUT, "timeouts"),
    (r.MEMORY, "out of memory"),
    (r.CRASHED, "crashes"),
    (r.NOT_RUN, "not run"),
)
_SHOWN = ("p50", "p90", "p99", "p99.9", "max")
"""Of `QUANTILES`, in all tables but that of MaskBench."""
_MASKBENCH_TIMES = ((STEP, "TBM"), (FIRST, "TTFM"))
"""Our quantities, and MaskBench's names for them: time between masks, time to first mask."""
_QUANTITIES = ((MASK, 1e3, "us"), (COMMIT, 1e3, "us"), (STEP, 1e3, "us"), (FIRST, 1e6, "ms"))


def sections(everything: Sequence[EngineSummary], shared: Sequence[EngineSummary]) -> list[ReportTable]:
    """All tables of a run.

    Args:
        everything: each engine over all its schemas.
        shared: each engine over the schemas that all engines ran, so that times can be compared.
    """
    heads = [f"{one.engine} {one.version}".strip() for one in everything]
    tables = [ReportTable("schemas", heads, _counts(everything))]
    for name in r.PASSES:
        for title, summaries in (
            ("all schemas of each engine", everything),
            (f"the {shared[0].outcomes.get(r.RAN, 0)} schemas that all engines ran", shared),
        ):
            if any(name in one.times for one in summaries):
                tables.append(ReportTable(f"{name}: {title}", heads, _times(summaries, name)))
            if len(everything) == 1:
                break
    tables.append(ReportTable("MaskBench's table, times in us", heads, _maskbench(everything)))
    if any(one.batch for one in everything):
        tables.append(ReportTable("batch, us a state", heads, _batches(everything)))
    return tables


def _counts(summaries: Sequence[EngineSummary]) -> list[tuple[str, Sequence[str]]]:
    lines: list[tuple[str, Sequence[str]]] = [("schemas", [str(one.schemas) for one in summaries])]
    lines += [
        (label, [_share(one.outcomes.get(outcome, 0), one.schemas) for one in summaries])
        for outcome, label in _COUNTED
        if outcome != r.NOT_RUN or any(outcome in one.outcomes for one in summaries)
    ]
    return [
        *lines,
        ("with a false positive", [str(len(one.false_positives)) for one in summaries]),
        ("with a false negative", [str(len(one.false_negatives)) for one in summaries]),
        ("instances replayed", [str(one.instances) for one in summaries]),
        ("vocabulary read, s", [format_number(one.setup_seconds, 1) for one in summaries]),
        ("memory before, MiB", [format_number(one.setup_bytes, 2**20) for one in summaries]),
        ("memory at most, MiB", [format_number(one.peak_bytes, 2**20) for one in summaries]),
        ("compiled schema p50, KiB", [format_number(one.compiled_bytes, 2**10) for one in summaries]),
    ]


def _times(summaries: Sequence[EngineSummary], name: str) -> list[tuple[str, Sequence[str]]]:
    lines: list[tuple[str, Sequence[str]]] = []
    for what, scale, unit in _QUANTITIES:
        spreads = [one.times.get(name, {}).get(what) for one in summaries]
        lines.append((f"{what}, {unit}: avg", [format_number(s.avg if s else None, scale) for s in spreads]))
        lines += [(q, [format_number(s.quantiles[q] if s else None, scale) for s in spreads]) for q in _SHOWN]
        lines.append(("count", [str(s.count) if s else NO_VALUE for s in spreads]))
    return lines


def _maskbench(summaries: Sequence[EngineSummary]) -> list[tuple[str, Sequence[str]]]:
    """The lines of the table on MaskBench's page, each engine over the schemas that it ran."""
    lines: list[tuple[str, Sequence[str]]] = []
    for what, name in _MASKBENCH_TIMES:
        spreads = [one.times.get(r.COLD, {}).get(what) for one in summaries]
        lines.append((f"{name} avg", [format_number(s.avg if s else None, 1e3) for s in spreads]))
        for q in QUANTILES:
            cells = [format_number(s.quantiles[q] if s else None, 1e3) for s in spreads]
            lines.append((f"{name} {'p100' if q == 'max' else q}", cells))
    steps = [one.times.get(r.COLD, {}).get(STEP) for one in summaries]
    counted = (
        ("schemas", lambda one: one.schemas),
        ("passing", lambda one: one.passing),
        ("compile error", lambda one: one.outcomes.get(r.REFUSED, 0)),
        ("error after compiling", lambda one: one.outcomes.get(r.FAILED, 0)),
        ("crash", lambda one: one.outcomes.get(r.CRASHED, 0)),
        ("out of memory", lambda one: one.outcomes.get(r.MEMORY, 0)),
        ("timeout", lambda one: one.outcomes.get(r.TIMEOUT, 0)),
        ("validation error", lambda one: len(one.false_negatives)),
        ("invalidation error", lambda one: len(one.false_positives)),
    )
    return [
        *lines,
        ("tokens", [f"{s.count:,}" if s else NO_VALUE for s in steps]),
        *((label, [f"{count(one):,}" for one in summaries]) for label, count in counted),
    ]


def _batches(summaries: Sequence[EngineSummary]) -> list[tuple[str, Sequence[str]]]:
    states = max(one.batch_states for one in summaries)
    return [
        ("one call each", [format_number(one.batch and one.batch[0], 1e3) for one in summaries]),
        (f"one call for {states}", [format_number(one.batch and one.batch[1], 1e3) for one in summaries]),
        (
            "ratio",
            [f"{one.batch[1] / one.batch[0]:.2f}" if one.batch else NO_VALUE for one in summaries],
        ),
        ("fork and roll back", [format_number(one.fork, 1e3) for one in summaries]),
    ]


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.1f} %)" if count else "0"


def markdown(tables: Iterable[ReportTable], facts: dict[str, Any]) -> str:
    """The page with all tables and how they were measured."""
    machine, settings = facts["machine"], facts["settings"]
    about = [
        f"{summarise_machine(machine)}; reading the clock {machine['clock_ns']} ns, included once in every time",
        f"vocabulary {settings['vocabulary']} of {facts['vocabulary_size']} tokens, {settings['threads']} thread(s) an "
        f"engine, {settings['time_limit']:g} s and {settings['memory_limit']:g} GiB a schema",
        f"{facts['cases']} schemas of {facts['data']}, seed {settings['seed']}",
        f"begun {facts['begun']}, ended {facts['ended']}",
        f"`{facts['command']}`",
    ]
    skipped = {one["engine"]: one["unavailable"] for one in facts["engines"] if one["unavailable"]}
    return markdown_page("Token masks, engine beside engine", about, tables, skipped=skipped)


def plot(measured: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> bool:
    """Plots the share of steps and first masks that take longer than a time; False without matplotlib.

    Args:
        measured: engine -> its times as `summary.times` gives them.
        path: of the picture.
    """

    def draw(figure: Any, panels: list[Any]) -> None:
        for panel, (what, scale, unit) in zip(panels, ((STEP, 1e3, "us"), (FIRST, 1e6, "ms")), strict=True):
            for engine, found in measured.items():
                values = np.sort(np.array(found[what])) / scale
                if len(values):
                    shares = 1 - np.arange(len(values)) / len(values)
                    panel.plot(values, shares, label=engine, drawstyle="steps-post")
            panel.set(xscale="log", yscale="log", xlabel=f"{what}, {unit}", ylabel="share that takes longer")
            panel.grid(alpha=0.3)
            panel.legend()

    return save_plot(path, draw, columns=2, size=(12, 4.5))
