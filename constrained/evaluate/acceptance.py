"""`bench acceptance`: acceptance rates of verification rules, this library's beside published ones, on synthetic (p, q).

A target p is flat or peaked, a draft q is good or bad: the logits of p are normal with a standard deviation of 1 or 4,
those of q differ from them by normal noise with a standard deviation of 0.5 or 2. All rules get identical pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.evaluate.harness.report import markdown_page, save_plot
from constrained.evaluate.harness.results import RowWriter, RunRecord, check_no_results, make_folder
from constrained.evaluate.harness.settings import Progress, check_minimum, no_progress
from constrained.evaluate.harness.tables import ReportTable
from constrained.spec.references import VERIFICATION_RULES, VerificationRule, optimal_acceptance, shared
from constrained.spec.references.bound import MAX_VOCABULARY
from constrained.spec.references.drafting import GreedyDrafts

TARGETS = {"flat target": 1.0, "peaked target": 4.0}
DRAFTS = {"good draft": 0.5, "bad draft": 2.0}
SHARED = "shared noise"
MOST_LIKELY = "k most likely"
OPTIMUM = "optimum, drawn drafts"
PAGE, PLOT = "acceptance.md", "acceptance.png"
_ENUMERATED = 600
"""Sequences of draft tokens up to which all are enumerated."""


@dataclass(frozen=True, slots=True)
class AcceptanceSettings:
    """What to measure.

    Attributes:
        tokens: size of the vocabulary.
        pairs: (p, q) of each kind.
        max_drafts: the largest number k of draft tokens.
        draws: sequences of draft tokens sampled for a pair with too many to enumerate.
        seed: of pairs and draft tokens.

    Raises:
        InvalidArgument: a value is out of range.
    """

    tokens: int = 10
    pairs: int = 20
    max_drafts: int = 8
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_minimum(self, tokens=2, pairs=1, max_drafts=1, draws=2, seed=0)


@dataclass(frozen=True, slots=True)
class AcceptanceRow:
    """The mean acceptance of a rule over the pairs of a kind.

    Attributes:
        kind: of the pairs.
        rule: its name.
        k: draft tokens.
        acceptance: mean probability that the emitted token is one of the draft tokens.
        error: standard error from sampling draft tokens; 0 where all were enumerated.
    """

    kind: str
    rule: str
    k: int
    acceptance: float
    error: float


def pairs(
    settings: AcceptanceSettings,
) -> Iterator[tuple[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]]]:
    """The kinds, each with its (p, q), float64 ``[tokens]``."""
    for row, (target, spread) in enumerate(TARGETS.items()):
        for column, (draft, noise) in enumerate(DRAFTS.items()):
            rng = np.random.default_rng([settings.seed, row, column])
            drawn = []
            for _ in range(settings.pairs):
                logits = rng.normal(0.0, spread, settings.tokens)
                drawn.append((_softmax(logits), _softmax(logits + rng.normal(0.0, noise, settings.tokens))))
            yield f"{target}, {draft}", drawn


def measure(settings: AcceptanceSettings, progress: Progress = no_progress) -> list[AcceptanceRow]:
    """All rows: every kind, rule and k; the optimum where the vocabulary is small enough."""
    rows = []
    for kind, drawn in pairs(settings):
        for k in range(1, settings.max_drafts + 1):
            progress(kind, k - 1, settings.max_drafts)
            mean = float(np.mean([shared.coupled_acceptance(p, q, k) for p, q in drawn]))
            rows.append(AcceptanceRow(kind, SHARED, k, mean, 0.0))
            mean = float(np.mean([shared.top_k_acceptance(p, q, k) for p, q in drawn]))
            rows.append(AcceptanceRow(kind, MOST_LIKELY, k, mean, 0.0))
            for rule in VERIFICATION_RULES:
                rates, errors = zip(*(_one(rule, p, q, k, settings) for p, q in drawn), strict=True)
                error = float(np.sqrt(np.square(errors).sum())) / len(drawn)
                rows.append(AcceptanceRow(kind, rule.name, k, float(np.mean(rates)), error))
            if settings.tokens <= MAX_VOCABULARY:
                mean = float(np.mean([optimal_acceptance(p, q, k) for p, q in drawn]))
                rows.append(AcceptanceRow(kind, OPTIMUM, k, mean, 0.0))
    return rows


def _one(
    rule: VerificationRule,
    p: NDArray[np.float64],
    q: NDArray[np.float64],
    k: int,
    settings: AcceptanceSettings,
) -> tuple[float, float]:
    sequences = 0 if isinstance(rule.draft_sampling, GreedyDrafts) else len(p) ** k
    if sequences <= _ENUMERATED:
        return rule.enumerate_acceptance(p, q, k)[1], 0.0
    return rule.estimate_acceptance(p, q, k, settings.draws, np.random.default_rng([settings.seed, k]))


def sections(rows: Sequence[AcceptanceRow]) -> list[ReportTable]:
    """A table for each kind: a line a rule, a column a k."""
    tables = []
    for kind in dict.fromkeys(row.kind for row in rows):
        own = [row for row in rows if row.kind == kind]
        counts = sorted({row.k for row in own})
        lines = [
            (
                name,
                [f"{row.acceptance:.3f}" for k in counts for row in own if (row.rule, row.k) == (name, k)],
            )
            for name in dict.fromkeys(row.rule for row in own)
        ]
        tables.append(ReportTable(f"mean acceptance: {kind}", [f"k = {k}" for k in counts], lines))
    return tables


def run(settings: AcceptanceSettings, out: Path, progress: Progress) -> list[ReportTable]:
    """Measures, and writes rows, a page and, with matplotlib, a plot.

    Raises:
        InvalidArgument: the folder already contains results, or cannot be written.
    """
    check_no_results(out)
    make_folder(out)
    record = RunRecord(settings)
    rows = measure(settings, progress)
    with RowWriter(out) as writer:
        for row in rows:
            writer.write(row)
    tables = sections(rows)
    machine = record.machine
    about = [
        f"{settings.tokens} tokens, {settings.pairs} pairs of each kind, seed {settings.seed}",
        f"exact up to {_ENUMERATED} sequences of draft tokens, else {settings.draws} sampled for each pair: standard "
        f"error of a mean {max(row.error for row in rows):.4f} at most",
        f"{machine['system']}, Python {machine['python']}, numpy {machine['numpy']}",
        f"`{record.command}`",
    ]
    (out / PAGE).write_text(markdown_page("Acceptance rates", about, tables), encoding="utf-8")
    plot(rows, out / PLOT)
    return tables


def plot(rows: Sequence[AcceptanceRow], path: Path) -> bool:
    """Plots acceptance against k, a panel for each kind; False without matplotlib."""
    kinds = list(dict.fromkeys(row.kind for row in rows))

    def draw(figure: Any, panels: list[Any]) -> None:
        for panel, kind in zip(panels, kinds, strict=True):
            for rule in dict.fromkeys(row.rule for row in rows):
                points = [(row.k, row.acceptance) for row in rows if (row.kind, row.rule) == (kind, rule)]
                style = (
                    {"linestyle": ":", "color": "grey"}
                    if rule == OPTIMUM
                    else {"marker": "o", "markersize": 3}
                )
                if points:
                    panel.plot(*zip(*points, strict=True), label=rule, **style)
            panel.set(title=kind, xlabel="draft tokens", ylabel="acceptance")
            panel.grid(alpha=0.3)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)

    return save_plot(path, draw, columns=len(kinds), size=(4 * len(kinds), 3.6), dpi=120)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.exp(logits - logits.max())
    weights /= weights.sum()
    return weights
