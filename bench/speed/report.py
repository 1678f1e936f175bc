"""Tables and page of `bench speed`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from constrained.bench.harness.machine import summarise_machine
from constrained.bench.harness.report import markdown_page
from constrained.bench.harness.results import RunRecord, make_folder
from constrained.bench.harness.tables import ReportTable
from constrained.bench.speed.run import MethodTimes, SpeedResults
from constrained.bench.speed.ways import UNCONSTRAINED
from constrained.cli.intervals import NO_VALUE

_WITHOUT = "constrained"
"""The decoding method without draft tokens."""
_HEADS = (
    "tokens", "cut", "passes", "a pass", "tok/s", "tok/CPU s", "ratio", "CPU ratio", "pass s", "draft s", "else s",
)  # fmt: skip
"""Of a line: texts that the limit cut; tokens per pass; tokens per second of wall-clock and of processor time, and their ratios to `generate` without a
constraint; seconds in the model, for drafting, and for everything else."""


def title(about: dict[str, Any]) -> str:
    """The model and its device."""
    return f"{about['model']} ({about['weights'] / 1e6:.1f} million weights, {about['dtype']}), {about['device']}"


def section(results: SpeedResults) -> ReportTable:
    """The decoding methods, a line each."""
    base = results.by_method[UNCONSTRAINED]
    lines = [(name, _cells(one, base)) for name, one in results.by_method.items()]
    texts = "texts" if results.settings.random is None else "recorded texts, which it is made to say"
    return ReportTable(f"{title(results.about)}; {results.texts} {texts}", _HEADS, lines)


def each_text(results: SpeedResults) -> ReportTable:
    """Tokens per second of processor time beside this library's without draft tokens, by text."""
    lines = []
    for name in results.by_method:
        times = sorted(
            one[_WITHOUT]["processor"]
            / one[_WITHOUT]["tokens"]
            * one[name]["tokens"]
            / one[name]["processor"]
            for one in results.by_case
        )
        cells = [times[0], times[len(times) // 2], times[-1]]
        lines.append((name, [*(f"{one:.2f}" for one in cells), str(sum(one < 1 for one in times))]))
    heads = ("worst", "median", "best", "texts that are slower")
    return ReportTable(f"tokens per second of processor time beside {_WITHOUT}, by text", heads, lines)


def _cells(one: MethodTimes, base: MethodTimes) -> list[str]:
    rate, processor = one.tokens / one.seconds, one.tokens / one.processor
    return [
        str(one.tokens),
        str(one.cut),
        str(one.forwards),
        f"{one.tokens / one.forwards:.2f}",
        f"{rate:.1f}",
        f"{processor:.1f}",
        f"{rate / (base.tokens / base.seconds):.2f}",
        f"{processor / (base.tokens / base.processor):.2f}",
        f"{one.forward:.2f}" if one.forward else NO_VALUE,
        f"{one.drafting:.2f}" if one.drafting else NO_VALUE,
        f"{one.seconds - one.forward - one.drafting:.2f}" if one.forward else NO_VALUE,
    ]


def write(tables: Sequence[ReportTable], results: dict[str, Any], folder: Path, record: RunRecord) -> None:
    """Writes results and a page into a folder.

    Raises:
        InvalidArgument: the folder cannot be written.
    """
    about = [
        f"`{record.command}`",
        f"{summarise_machine(record.machine)}; torch {results['about']['torch']}",
    ]
    if results.get("skipped"):
        about.append(f"texts left out because of: {results['skipped']}")
    make_folder(folder)
    (folder / "speed.json").write_text(json.dumps(record.facts() | results, indent=2) + "\n", "utf-8")
    (folder / "speed.md").write_text(markdown_page("Tokens per second", about, tables), encoding="utf-8")
