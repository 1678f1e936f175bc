"""Tables of a run, for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from constrained.errors import InvalidArgument
from constrained.evaluate.masks.report import ReportTable
from constrained.evaluate.speed.run import MethodTimes, SpeedResults
from constrained.evaluate.speed.trials import SpeculationTrial
from constrained.evaluate.speed.ways import UNCONSTRAINED

_HEADS = (
    "tokens", "passes", "a pass", "tok/s", "tok/CPU s", "ratio", "CPU ratio", "pass s", "guess s", "else s",
)  # fmt: skip
"""Of a line: tokens a pass; tokens per second of the clock and of processor time, and both against `generate` without a
constraint; seconds in the model, on guessing, and on everything else."""


def title(about: dict[str, Any]) -> str:
    """What was measured on what."""
    return f"{about['model']} ({about['weights'] / 1e6:.1f} million weights, {about['dtype']}), {about['device']}"


def section(results: SpeedResults) -> ReportTable:
    """The ways, a line each."""
    base = results.by_method[UNCONSTRAINED]
    lines = [(name, _cells(one, base)) for name, one in results.by_method.items()]
    texts = "texts" if results.settings.random is None else "recorded texts, which it is made to say"
    return ReportTable(f"{title(results.about)}; {results.texts} {texts}", _HEADS, lines)


def _cells(one: MethodTimes, base: MethodTimes) -> list[str]:
    rate, processor = one.tokens / one.seconds, one.tokens / one.processor
    return [
        str(one.tokens),
        str(one.forwards),
        f"{one.tokens / one.forwards:.2f}",
        f"{rate:.1f}",
        f"{processor:.1f}",
        f"{rate / (base.tokens / base.seconds):.2f}",
        f"{processor / (base.tokens / base.processor):.2f}",
        f"{one.forward:.2f}",
        f"{one.drafting:.2f}" if one.drafting else "-",
        f"{one.seconds - one.forward - one.drafting:.2f}",
    ]


def trials(found: Sequence[SpeculationTrial], about: dict[str, Any]) -> ReportTable:
    """With guesses against without, a line for each kind of text and size of batch."""
    heads = ("tokens", "CPU s without", "CPU s with", "speed of with", "+-", "guesses read", "came true")
    lines = [
        (
            f"{one.kind}, batch {one.batch}",
            [
                str(one.tokens),
                f"{sum(one.baseline):.1f}",
                f"{sum(one.speculative):.1f}",
                f"{one.ratio:.3f}",
                f"{one.error:.3f}",
                str(one.drafted),
                str(one.accepted),
            ],
        )
        for one in found
    ]
    return ReportTable(f"{title(about)}; with guesses against without", heads, lines)


def write(sections: Sequence[ReportTable], rows: dict[str, Any], folder: Path, command: str) -> None:
    """Writes rows and a page into a folder.

    Raises:
        InvalidArgument: it cannot be written.
    """
    machine = rows["about"]["machine"]
    text = [
        "# Tokens per second",
        "",
        f"- `{command}`",
        f"- {machine['processor']}, {machine['cores']} cores, load {machine['load']}; torch {rows['about']['torch']}",
    ]
    if rows.get("skipped"):
        text.append(f"- texts left out because of: {rows['skipped']}")
    for one in sections:
        text += ["", f"## {one.title[0].upper()}{one.title[1:]}", ""]
        text.append("| | " + " | ".join(one.engines) + " |")
        text.append("|---|" + "---:|" * len(one.engines))
        text += [f"| {label} | " + " | ".join(cells) + " |" for label, cells in one.lines]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "speed.json").write_text(json.dumps(rows | {"command": command}, indent=2) + "\n", "utf-8")
        (folder / "speed.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(
            f"{str(folder)!r} cannot be written: {error.strerror}", action="check --out"
        ) from None
