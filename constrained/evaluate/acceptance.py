"""How often a guess is right: the shared noise of this library beside the rules of others, on synthetic (p, q).

A target p is flat or peaked, a draft q is good or bad; logits are normal, with a standard deviation of 1 or 4 for the
target and of 0.5 or 2 for what the draft is off. Every rule sees the same pairs.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from constrained.errors import InvalidArgument
from constrained.evaluate.masks import machine
from constrained.evaluate.masks.report import ReportTable
from spec.references import VERIFICATION_RULES, VerificationRule, optimal_acceptance, shared
from spec.references.bound import MAX_VOCABULARY
from spec.references.drafting import GreedyDrafts

TARGETS = {"flat target": 1.0, "peaked target": 4.0}
DRAFTS = {"good draft": 0.5, "bad draft": 2.0}
SHARED = "shared noise"
MOST_LIKELY = "k most likely"
OPTIMUM = "optimum, drawn guesses"
ROWS, PAGE, PLOT = "rows.jsonl", "acceptance.md", "acceptance.png"
_ENUMERATED = 600  # ways of guessing up to which all are visited

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class AcceptanceSettings:
    """What to measure.

    Attributes:
        tokens: size of the vocabulary.
        pairs: (p, q) of each kind.
        max_drafts: k goes from 1 to this.
        draws: guesses drawn for a pair where there are too many to visit all.
        seed: of everything that is drawn.
    """

    tokens: int = 10
    pairs: int = 20
    max_drafts: int = 8
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("tokens", 2), ("pairs", 1), ("max_drafts", 1), ("draws", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name} is {getattr(self, name)}", action=f"pass {least} or more")


@dataclass(frozen=True, slots=True)
class AcceptanceRow:
    """The mean acceptance of a rule over the pairs of a kind.

    Attributes:
        kind: of the pairs.
        rule: its name.
        k: guesses.
        acceptance: the mean probability that the emitted token was guessed.
        error: standard error that drawing guesses adds to it; 0: nothing was drawn.
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
    for number, (target, spread) in enumerate(TARGETS.items()):
        for other, (draft, off) in enumerate(DRAFTS.items()):
            draw = np.random.default_rng([settings.seed, number, other])
            found = []
            for _ in range(settings.pairs):
                logits = draw.normal(0.0, spread, settings.tokens)
                found.append((_softmax(logits), _softmax(logits + draw.normal(0.0, off, settings.tokens))))
            yield f"{target}, {draft}", found


def measure(
    settings: AcceptanceSettings, progress: Progress = lambda what, done, total: None
) -> list[AcceptanceRow]:
    """All rows: every kind, rule and k; the optimum where the vocabulary is small enough."""
    rows = []
    for kind, found in pairs(settings):
        for k in range(1, settings.max_drafts + 1):
            progress(kind, k - 1, settings.max_drafts)
            mean = float(np.mean([shared.coupled_acceptance(p, q, k) for p, q in found]))
            rows.append(AcceptanceRow(kind, SHARED, k, mean, 0.0))
            mean = float(np.mean([shared.top_k_acceptance(p, q, k) for p, q in found]))
            rows.append(AcceptanceRow(kind, MOST_LIKELY, k, mean, 0.0))
            for rule in VERIFICATION_RULES:
                chances, errors = zip(*(_one(rule, p, q, k, settings) for p, q in found), strict=True)
                error = float(np.sqrt(np.square(errors).sum())) / len(found)
                rows.append(AcceptanceRow(kind, rule.name, k, float(np.mean(chances)), error))
            if settings.tokens <= MAX_VOCABULARY:
                rows.append(
                    AcceptanceRow(
                        kind, OPTIMUM, k, float(np.mean([optimal_acceptance(p, q, k) for p, q in found])), 0.0
                    )
                )
    return rows


def _one(
    rule: VerificationRule,
    p: NDArray[np.float64],
    q: NDArray[np.float64],
    k: int,
    settings: AcceptanceSettings,
) -> tuple[float, float]:
    ways = 0 if isinstance(rule.draft_sampling, GreedyDrafts) else len(p) ** k
    if ways <= _ENUMERATED:
        return rule.enumerate_acceptance(p, q, k)[1], 0.0
    return rule.estimate_acceptance(p, q, k, settings.draws, np.random.default_rng([settings.seed, k]))


def sections(rows: Sequence[AcceptanceRow]) -> list[ReportTable]:
    """A table for each kind: a line a rule, a column a k."""
    made = []
    for kind in dict.fromkeys(row.kind for row in rows):
        mine = [row for row in rows if row.kind == kind]
        counts = sorted({row.k for row in mine})
        lines = [
            (
                name,
                [f"{row.acceptance:.3f}" for k in counts for row in mine if (row.rule, row.k) == (name, k)],
            )
            for name in dict.fromkeys(row.rule for row in mine)
        ]
        made.append(ReportTable(f"mean acceptance: {kind}", [f"k = {k}" for k in counts], lines))
    return made


def run(settings: AcceptanceSettings, out: Path, progress: Progress) -> tuple[list[ReportTable], bool]:
    """Measures, and writes rows, a page and, with matplotlib, a plot.

    Returns:
        The tables, and whether there is a plot.

    Raises:
        InvalidArgument: the folder holds results already, or cannot be written.
    """
    if (out / ROWS).exists():
        raise InvalidArgument(f"{str(out)!r} already holds results", action="name another folder with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"{str(out)!r} cannot be written: {error.strerror}", action="check --out"
        ) from None
    rows = measure(settings, progress)
    (out / ROWS).write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
    made = sections(rows)
    (out / PAGE).write_text(_page(settings, rows, made), encoding="utf-8")
    return made, plot(rows, out / PLOT)


def _page(settings: AcceptanceSettings, rows: Sequence[AcceptanceRow], made: Sequence[ReportTable]) -> str:
    about = machine.describe()
    text = [
        "# How often a guess is right",
        "",
        f"- {settings.tokens} tokens, {settings.pairs} pairs of each kind, seed {settings.seed}",
        f"- exact up to {_ENUMERATED} ways of guessing, else {settings.draws} guesses drawn a pair: standard error of "
        f"a mean {max(row.error for row in rows):.4f} at most",
        f"- {about['system']}, Python {about['python']}, numpy {about['numpy']}",
        f"- `{shlex.join(['constrained', *sys.argv[1:]])}`",
    ]
    for section in made:
        text += ["", f"## {section.title[0].upper()}{section.title[1:]}", ""]
        text.append("| | " + " | ".join(section.engines) + " |")
        text.append("|---|" + "---:|" * len(section.engines))
        text += [f"| {label} | " + " | ".join(cells) + " |" for label, cells in section.lines]
    return "\n".join(text) + "\n"


def plot(rows: Sequence[AcceptanceRow], path: Path) -> bool:
    """Draws acceptance against k, a panel a kind; False without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(row.kind for row in rows))
    figure, panels = pyplot.subplots(1, len(kinds), figsize=(4 * len(kinds), 3.6), layout="constrained")
    for panel, kind in zip(np.atleast_1d(panels), kinds, strict=True):
        for rule in dict.fromkeys(row.rule for row in rows):
            points = [(row.k, row.acceptance) for row in rows if (row.kind, row.rule) == (kind, rule)]
            style = (
                {"linestyle": ":", "color": "grey"} if rule == OPTIMUM else {"marker": "o", "markersize": 3}
            )
            if points:
                panel.plot(*zip(*points, strict=True), label=rule, **style)
        panel.set(title=kind, xlabel="guesses", ylabel="acceptance")
        panel.grid(alpha=0.3)
    figure.legend(*np.atleast_1d(panels)[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.exp(logits - logits.max())
    weights /= weights.sum()
    return weights
