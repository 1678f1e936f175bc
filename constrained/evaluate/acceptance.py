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
from constrained.evaluate.masks.report import Section
from spec.references import RULES, Rule, optimum, shared
from spec.references.bound import MOST_TOKENS
from spec.references.drafting import Greedy

TARGETS = {"flat target": 1.0, "peaked target": 4.0}
DRAFTS = {"good draft": 0.5, "bad draft": 2.0}
SHARED = "shared noise"
MOST_LIKELY = "k most likely"
OPTIMUM = "optimum, drawn guesses"
ROWS, PAGE, PLOT = "rows.jsonl", "acceptance.md", "acceptance.png"
_ENUMERATED = 600  # ways of guessing up to which all are visited

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure.

    Attributes:
        tokens: size of the vocabulary.
        pairs: (p, q) of each kind.
        most: k goes from 1 to this.
        draws: guesses drawn for a pair where there are too many to visit all.
        seed: of everything that is drawn.
    """

    tokens: int = 10
    pairs: int = 20
    most: int = 8
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("tokens", 2), ("pairs", 1), ("most", 1), ("draws", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name} is {getattr(self, name)}", action=f"pass {least} or more")


@dataclass(frozen=True, slots=True)
class Row:
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


def pairs(settings: Settings) -> Iterator[tuple[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]]]:
    """The kinds, each with its (p, q), float64 ``[tokens]``."""
    for number, (target, spread) in enumerate(TARGETS.items()):
        for other, (draft, off) in enumerate(DRAFTS.items()):
            draw = np.random.default_rng([settings.seed, number, other])
            found = []
            for _ in range(settings.pairs):
                logits = draw.normal(0.0, spread, settings.tokens)
                found.append((_softmax(logits), _softmax(logits + draw.normal(0.0, off, settings.tokens))))
            yield f"{target}, {draft}", found


def measure(settings: Settings, progress: Progress = lambda what, done, total: None) -> list[Row]:
    """All rows: every kind, rule and k; the optimum where the vocabulary is small enough."""
    rows = []
    for kind, found in pairs(settings):
        for k in range(1, settings.most + 1):
            progress(kind, k - 1, settings.most)
            mean = float(np.mean([shared.acceptance(p, q, k) for p, q in found]))
            rows.append(Row(kind, SHARED, k, mean, 0.0))
            mean = float(np.mean([shared.most_likely(p, q, k) for p, q in found]))
            rows.append(Row(kind, MOST_LIKELY, k, mean, 0.0))
            for rule in RULES:
                chances, errors = zip(*(_one(rule, p, q, k, settings) for p, q in found), strict=True)
                error = float(np.sqrt(np.square(errors).sum())) / len(found)
                rows.append(Row(kind, rule.name, k, float(np.mean(chances)), error))
            if settings.tokens <= MOST_TOKENS:
                rows.append(Row(kind, OPTIMUM, k, float(np.mean([optimum(p, q, k) for p, q in found])), 0.0))
    return rows


def _one(
    rule: Rule, p: NDArray[np.float64], q: NDArray[np.float64], k: int, settings: Settings
) -> tuple[float, float]:
    ways = 0 if isinstance(rule.drafting, Greedy) else len(p) ** k
    if ways <= _ENUMERATED:
        return rule.exact(p, q, k)[1], 0.0
    return rule.estimate(p, q, k, settings.draws, np.random.default_rng([settings.seed, k]))


def sections(rows: Sequence[Row]) -> list[Section]:
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
        made.append(Section(f"mean acceptance: {kind}", [f"k = {k}" for k in counts], lines))
    return made


def run(settings: Settings, out: Path, progress: Progress) -> tuple[list[Section], bool]:
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


def _page(settings: Settings, rows: Sequence[Row], made: Sequence[Section]) -> str:
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


def plot(rows: Sequence[Row], path: Path) -> bool:
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
