"""What resampling costs and gains: sets of `smc` by threshold and scheme, on a task, and on a model with two moods.

Particles are resampled by their weights so far; `prefix_weights.py` has how much these tell of the weights at the end.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from constrained.bench.fidelity.exact_distribution import total_variation
from constrained.bench.fidelity.measure import TaskMeasurement
from constrained.bench.fidelity.prefix_weights import PrefixWeights
from constrained.bench.harness.tables import ReportTable, format_number
from constrained.cli.intervals import NO_VALUE
from constrained.constraint import regex
from constrained.decoding import Generator
from constrained.models.base import Prompt
from constrained.sampling import AWRS, SMC
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary

Scheme = Literal["systematic", "residual", "multinomial"]

SETTINGS: tuple[tuple[float, Scheme], ...] = (
    (0.0, "systematic"),
    (0.1, "systematic"),
    (0.25, "systematic"),
    (0.5, "systematic"),
    (0.5, "residual"),
    (0.5, "multinomial"),
)
"""Thresholds and schemes; the third is the default."""

TEXTS, MOODY_TEXTS = 100, 50
"""Texts of a set on a task, and of the model with two moods."""


@dataclass(frozen=True, slots=True)
class ResamplingRow:
    """Some sets by one setting of `smc`.

    Attributes:
        task: its name, or `TwoMoods.name`.
        threshold, scheme: of `SMC`.
        sets: how many.
        distance: mean total variation to the exact distribution; None for two moods.
        evidence_error: root mean square of the relative error of the estimate of P(L); None for a task.
        mean_error: the same of the absolute error of the mean number of letters of the second mood.
    """

    task: str
    threshold: float
    scheme: Scheme
    sets: int
    distance: float | None = None
    evidence_error: float | None = None
    mean_error: float | None = None

    @property
    def setting(self) -> str:
        """As in the tables."""
        if not self.threshold:
            return "never: weights alone"
        return f"{self.threshold:g}" + ("" if self.scheme == "systematic" else f", {self.scheme}")


def resample_task(measured: TaskMeasurement, sets: int, seed: int) -> Iterator[ResamplingRow]:
    """A row for each setting."""
    task = measured.task
    for threshold, scheme in SETTINGS:
        generator = Generator(
            measured.model, task.constraint, sampler=_smc(threshold, scheme), speculation=None
        )
        distances = [
            total_variation(
                generator.sample(
                    measured.prompt, TEXTS, seed=seed + i, temperature=1.0, max_tokens=task.limit
                ).posterior,
                measured.exact.conditional,
            )
            for i in range(sets)
        ]
        yield ResamplingRow(task.name, threshold, scheme, sets, distance=statistics.fmean(distances))


class TwoMoods(FunctionModel):
    """Writes a in its calm mood and b in its restless one, and leaves the language by an x in the latter.

    A letter tells the mood, which stays with probability 0.9; after b, at every second token, x has 0.6. After 60 letters the
    end has 0.5. So a weight tells of the future: it is the texts with few b that survive.
    """

    name = "two moods"
    length = 60

    def __init__(self) -> None:
        self.vocabulary = Vocabulary.from_bytes([b"a", b"b", b"x", b""], [3])

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """The end, for any prompt."""
        return [3]

    def logits(self, prompt: list[int], said: list[int]) -> NDArray[np.float64]:
        """Log p of a, b, x and the end, float64 [4]."""
        with np.errstate(divide="ignore"):
            return np.log(self.row(len(said), said[-1] if said else None))

    def row(self, length: int, last: int | None) -> NDArray[np.float64]:
        """Probabilities after so many letters, by the last of them."""
        if length >= self.length:
            return np.array([0.25, 0.25, 0.0, 0.5])
        if last is None:
            return np.array([0.5, 0.5, 0.0, 0.0])
        leaves = 0.6 if last == 1 and length % 2 else 0.0
        calm = 0.9 if last == 0 else 0.1
        return np.array([calm * (1 - leaves), (1 - calm) * (1 - leaves), leaves, 0.0])

    def exact(self) -> tuple[float, float]:
        """P(L) and the mean number of b, by recursion over the mood and this number."""
        calm, restless = np.zeros(self.length + 1), np.zeros(self.length + 1)
        calm[0] = restless[1] = 0.5
        for length in range(1, self.length):
            stay, leave = self.row(length, 0), self.row(length, 1)
            to_b = calm * stay[1] + restless * leave[1]
            calm = calm * stay[0] + restless * leave[0]
            restless = np.roll(to_b, 1)
        whole = (calm + restless) * self.row(self.length, 0)[3]
        return float(whole.sum()), float(whole @ np.arange(self.length + 1) / whole.sum())


def resample_moods(sets: int, seed: int) -> Iterator[ResamplingRow]:
    """A row for each threshold, with the default scheme."""
    model = TwoMoods()
    mass, mean = model.exact()
    constraint = regex(f"[ab]{{{model.length}}}")
    for threshold, scheme in SETTINGS:
        if scheme != "systematic":
            continue
        generator = Generator(model, constraint, sampler=_smc(threshold, scheme), speculation=None)
        evidence, means = [], []
        for i in range(sets):
            drawn = generator.sample("", MOODY_TEXTS, seed=seed + i, temperature=1.0, max_tokens=model.length)
            assert drawn.log_evidence is not None
            evidence.append(math.exp(drawn.log_evidence) / mass - 1)
            letters = [out.text.count("b") for out in drawn]
            means.append(float(np.dot(drawn.weights, letters)) - mean)
        yield ResamplingRow(
            model.name, threshold, scheme, sets, evidence_error=_size(evidence), mean_error=_size(means)
        )


def _smc(threshold: float, scheme: Scheme) -> SMC:
    return SMC(proposal=AWRS(cached=False), threshold=threshold, resampling=scheme)


def _size(errors: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(error * error for error in errors))


def resampling_tables(rows: Sequence[ResamplingRow], prefixes: Sequence[PrefixWeights]) -> list[ReportTable]:
    """A table of thresholds for all tasks, one for two moods, and one of prefixes for each task."""
    tables = []
    tasks = [task for task in dict.fromkeys(row.task for row in rows) if task != TwoMoods.name]
    distance = {(row.task, row.setting): row.distance for row in rows}
    settings = dict.fromkeys(row.setting for row in rows)
    if tasks:
        lines = [(name, [_cell(distance.get((task, name))) for task in tasks]) for name in settings]
        tables.append(ReportTable("total variation by resampling threshold", tasks, lines))
    moods = [row for row in rows if row.task == TwoMoods.name]
    if moods:
        columns = ["estimate of P(L), relative error", "error of the mean"]
        lines = [(row.setting, [_cell(row.evidence_error), _cell(row.mean_error)]) for row in moods]
        tables.append(ReportTable("a model with two moods, by resampling threshold", columns, lines))
    for task in dict.fromkeys(row.task for row in prefixes):
        columns = [
            "share by weights so far",
            "by weights at the end",
            "correlation",
            "total variation: weighted",
        ]
        lines = [
            (str(row.tokens), [_cell(x) for x in (row.so_far, row.at_end)] + [
                NO_VALUE if row.correlation is None else f"{row.correlation:+.2f}", _cell(row.weighted), _cell(row.masked)
            ])
            for row in prefixes
            if row.task == task
        ]  # fmt: skip
        tables.append(
            ReportTable(f"{task}: weights of prefixes, by tokens", [*columns, "not weighted"], lines)
        )
    return tables


def _cell(value: float | None) -> str:
    return format_number(value, decimals=3)
