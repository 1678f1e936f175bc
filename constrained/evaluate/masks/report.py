"""Summaries for readers: a table in the terminal, a page of Markdown, a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from constrained.evaluate.masks import rows as r
from constrained.evaluate.masks.summary import (
    COMMIT,
    FIRST,
    MASK,
    QUANTILES,
    STEP,
    EngineSummary,
    times,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

_NONE = "-"
_COUNTED = (
    (r.REFUSED, "refused"),
    (r.FAILED, "errors after compiling"),
    (r.TIMEOUT, "timeouts"),
    (r.MEMORY, "out of memory"),
    (r.CRASHED, "crashes"),
    (r.NOT_RUN, "not run"),
)
_QUANTITIES = ((MASK, 1e3, "us"), (COMMIT, 1e3, "us"), (STEP, 1e3, "us"), (FIRST, 1e6, "ms"))


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table, one column an engine.

    Attributes:
        title: what it shows.
        engines: heads of the columns.
        lines: a label, and a cell for each engine.
    """

    title: str
    engines: Sequence[str]
    lines: Sequence[tuple[str, Sequence[str]]]


def sections(everything: Sequence[EngineSummary], shared: Sequence[EngineSummary]) -> list[ReportTable]:
    """All tables of a run.

    Args:
        everything: each engine over all schemas it was given.
        shared: each engine over the schemas that all engines went through, which is what times can be compared on.
    """
    heads = [f"{one.engine} {one.version}".strip() for one in everything]
    found = [ReportTable("schemas", heads, _counts(everything))]
    for name in r.PASSES:
        for title, summaries in (
            ("all schemas of each engine", everything),
            (f"the {shared[0].outcomes.get(r.RAN, 0)} schemas that all engines ran", shared),
        ):
            if any(name in one.times for one in summaries):
                found.append(ReportTable(f"{name}: {title}", heads, _times(summaries, name)))
            if len(everything) == 1:
                break
    if any(one.batch for one in everything):
        found.append(ReportTable("batch, us a state", heads, _batches(everything)))
    return found


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
        ("vocabulary read, s", [_number(one.setup_seconds, 1) for one in summaries]),
        ("memory before, MiB", [_number(one.setup_bytes, 2**20) for one in summaries]),
        ("memory at most, MiB", [_number(one.peak_bytes, 2**20) for one in summaries]),
        ("compiled schema p50, KiB", [_number(one.compiled_bytes, 2**10) for one in summaries]),
    ]


def _times(summaries: Sequence[EngineSummary], name: str) -> list[tuple[str, Sequence[str]]]:
    lines: list[tuple[str, Sequence[str]]] = []
    for what, scale, unit in _QUANTITIES:
        spreads = [one.times.get(name, {}).get(what) for one in summaries]
        lines.append((f"{what}, {unit}: avg", [_number(s.avg if s else None, scale) for s in spreads]))
        lines += [(q, [_number(s.quantiles[q] if s else None, scale) for s in spreads]) for q in QUANTILES]
        lines.append(("count", [str(s.count) if s else _NONE for s in spreads]))
    return lines


def _batches(summaries: Sequence[EngineSummary]) -> list[tuple[str, Sequence[str]]]:
    states = max(one.batch_states for one in summaries)
    return [
        ("one call each", [_number(one.batch and one.batch[0], 1e3) for one in summaries]),
        (f"one call for {states}", [_number(one.batch and one.batch[1], 1e3) for one in summaries]),
        (
            "ratio",
            [f"{one.batch[1] / one.batch[0]:.2f}" if one.batch else _NONE for one in summaries],
        ),
        ("fork and roll back", [_number(one.fork, 1e3) for one in summaries]),
    ]


def _number(value: float | None, scale: float) -> str:
    """Three significant digits, no exponent."""
    if value is None:
        return _NONE
    scaled = value / scale
    digits = max(0, 2 - int(np.floor(np.log10(scaled)))) if 0 < scaled < 100 else 0
    return f"{scaled:,.{min(digits, 3)}f}"


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.1f} %)" if count else "0"


def table(section: ReportTable) -> RenderableType:
    """A section for the terminal."""
    from rich.table import Table

    drawn = Table(title=section.title, title_justify="left", box=None, pad_edge=False)
    drawn.add_column("")
    for engine in section.engines:
        drawn.add_column(engine, justify="right")
    for label, cells in section.lines:
        begins = ": avg" in label
        drawn.add_row(
            label if begins or len(label) > 5 else f"  {label}", *cells, style="bold" if begins else ""
        )
    return drawn


def markdown(sections: Iterable[ReportTable], facts: dict[str, Any]) -> str:
    """A page with all tables, and how they came about."""
    machine, settings = facts["machine"], facts["settings"]
    text = [
        "# Token masks, engine beside engine",
        "",
        f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}; load before the run {machine['load']}; "
        f"reading the clock {machine['clock_ns']} ns, which every time holds once",
        f"- vocabulary {settings['vocabulary']} of {facts['vocabulary_size']} tokens, {settings['threads']} thread(s) an "
        f"engine, {settings['time_limit']:g} s and {settings['memory_limit']:g} GiB a schema",
        f"- {facts['cases']} schemas of {facts['data']}, seed {settings['seed']}",
        f"- begun {facts['begun']}, ended {facts['ended']}",
        f"- `{facts['command']}`",
    ]
    for section in sections:
        text += ["", f"## {section.title[0].upper()}{section.title[1:]}", ""]
        text.append("| | " + " | ".join(section.engines) + " |")
        text.append("|---|" + "---:|" * len(section.engines))
        text += [f"| {label} | " + " | ".join(cells) + " |" for label, cells in section.lines]
    missing = [one for one in facts["engines"] if one["unavailable"]]
    if missing:
        text += ["", "Not measured:", ""] + [f"- {one['engine']}: {one['unavailable']}" for one in missing]
    return "\n".join(text) + "\n"


def plot(rows: Sequence[r.MaskBenchRow], engines: Sequence[str], path: Path) -> bool:
    """Draws how many steps and first masks take longer than a time; False without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for panel, (what, scale, unit) in zip(axes, ((STEP, 1e3, "us"), (FIRST, 1e6, "ms")), strict=True):
        for engine in engines:
            passes = [row.passes[r.COLD] for row in rows if row.engine == engine and r.COLD in row.passes]
            values = np.sort(np.array(times(passes)[what])) / scale
            if len(values):
                panel.plot(
                    values, 1 - np.arange(len(values)) / len(values), label=engine, drawstyle="steps-post"
                )
        panel.set(xscale="log", yscale="log", xlabel=f"{what}, {unit}", ylabel="share that takes longer")
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True
