"""Sets of samples of one task, and their distances from the exact distribution."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from constrained.bench.fidelity import rows as r
from constrained.bench.fidelity.exact_distribution import (
    ExactDistributions,
    exact_distributions,
    kl_divergence,
    total_variation,
)
from constrained.bench.fidelity.goodness_of_fit import g_test
from constrained.bench.fidelity.rows import BlockCost, FidelityRow, TaskDistribution
from constrained.bench.fidelity.samplers import SAMPLER_ENTRIES
from constrained.bench.fidelity.tasks import FidelityTask, RecordingModel
from constrained.decoding import Generator
from constrained.decoding.speculation import speculation_obstacle
from constrained.errors import BudgetExhausted
from constrained.models import LanguageModel
from constrained.sampling import CARS, Rejection, Tries

_FLOOR_SETS = 200
"""Sets of exact draws that the floor is the mean of."""
_ATTEMPTS = 1000
"""Budget for each text of a block."""


class TaskMeasurement:
    """A task with a model and its exact distribution.

    Args:
        task: the language.
        model: a loaded model, or None for the task's own.
        budget: prefixes to visit at most.

    Raises:
        TooManySequences: the enumeration exceeds the budget.
    """

    def __init__(self, task: FidelityTask, model: LanguageModel | None, budget: int) -> None:
        from constrained.automaton import compile

        self.task = task
        self.model = model or task.model()
        self.model_name = "n-gram" if model is None else repr(model)
        self.prompt: Any = self.model.encode(task.prompt)
        self.automaton = compile(task.constraint, self.model.vocabulary)
        self.exact: ExactDistributions = exact_distributions(
            self.model, self.automaton, task.limit, prompt=self.prompt, budget=budget
        )

    def distribution(self, sizes: Sequence[int]) -> TaskDistribution:
        """What is known without drawing."""
        exact = self.exact
        return TaskDistribution(
            self.task.name,
            self.model_name,
            len(exact.conditional),
            exact.prefixes,
            exact.mass,
            exact.distance,
            kl_divergence(exact.local, exact.conditional),
            {size: self.floor(size) for size in sizes},
        )

    def floor(self, size: int) -> float:
        """Mean total variation distance between the exact distribution and `size` samples from it."""
        p = np.array(list(self.exact.conditional.values()))
        sets = np.random.default_rng(0).multinomial(size, p / p.sum(), _FLOOR_SETS) / size
        return float(0.5 * np.abs(sets - p).sum(axis=1).mean())

    def sets(
        self, sampler: str, sizes: Sequence[int], repeats: int, seed: int, time_limit: float
    ) -> Iterator[FidelityRow]:
        """A row for each size and repetition; stops after the first that is too slow, or cannot be drawn."""
        if SAMPLER_ENTRIES[sampler].speculation is not None:
            obstacle = speculation_obstacle(self.model, self.automaton)
            if obstacle is not None:
                yield FidelityRow(self.task.name, sampler, sizes[-1], outcome=r.NO_DRAFTS, message=obstacle)
                return
        last = 0.0
        for i, size in enumerate(sizes):
            if i and last * size / sizes[i - 1] > time_limit:
                yield FidelityRow(self.task.name, sampler, size, outcome=r.TOO_SLOW)
                return
            for repeat in range(repeats):
                row = self.draw_set(sampler, size, repeat, seed)
                yield row
                if row.outcome != r.COMPLETED:
                    return
                last = row.seconds

    def draw_set(self, sampler: str, size: int, repeat: int, seed: int) -> FidelityRow:
        """One set."""
        entry = SAMPLER_ENTRIES[sampler]
        row = FidelityRow(self.task.name, sampler, size, repeat)
        generator = Generator(
            self.model, self.task.constraint, sampler=entry.make(), speculation=entry.speculation
        )
        recording = self.model if isinstance(self.model, RecordingModel) else None
        if recording is not None:
            recording.contexts.clear()
        began = time.process_time()
        try:
            found = generator.sample(
                self.prompt,
                size,
                sequence=repeat * 100_003 + size,
                seed=seed,
                temperature=1.0,
                max_tokens=self.task.limit,
            )
        except BudgetExhausted as error:
            row.outcome, row.message = r.EXHAUSTED, error.summary
            row.attempts = int(error.diagnostics.get("attempts", 0))
            return row
        row.cpu_seconds = time.process_time() - began
        row.contexts = None if recording is None else len(recording.contexts)
        row.drawn = len(found)
        row.forwards, row.checks, row.tokens = found.forwards, found.checks, found.tokens
        row.attempts, row.accepted, row.seconds = found.attempts, found.accepted, found.seconds
        counts = Counter(output.text for output in found)
        distribution = (
            found.posterior if entry.weighted else {text: n / len(found) for text, n in counts.items()}
        )
        row.distance = total_variation(distribution, self.exact.conditional)
        row.divergence = kl_divergence(distribution, self.exact.conditional)
        row.effective = found.ess if entry.weighted else float(len(found))
        if not entry.weighted:
            row.fit = g_test(counts, self.exact.conditional)
        if found.log_evidence is not None:
            row.evidence = math.exp(found.log_evidence) / self.exact.mass
            if found.log_evidence_error is not None:
                row.evidence_error = found.log_evidence_error * row.evidence
        return row

    def learning(
        self, sampler: str, texts: int, block: int, seed: int, time_limit: float = math.inf
    ) -> Iterator[BlockCost]:
        """Forwards for one block of texts after the other: of CARS with one memory, or of rejection.

        Attempts are made one at a time: side by side they would hide what learning saves. Stops before the first block that
        spends its budget, and after the first that took longer than the limit, in seconds.
        """
        exact = CARS(_ATTEMPTS, 1, Tries()) if sampler == "cars" else Rejection(_ATTEMPTS, 1)
        generator = Generator(self.model, self.task.constraint, sampler=exact, speculation=None)
        for number in range(texts // block):
            began = time.perf_counter()
            try:
                drawn = generator.sample(
                    self.prompt,
                    block,
                    sequence=number,
                    seed=seed,
                    temperature=1.0,
                    max_tokens=self.task.limit,
                )
            except BudgetExhausted:
                return
            first = number * block + 1
            yield BlockCost(self.task.name, sampler, first, first + block - 1, drawn.forwards)
            if time.perf_counter() - began > time_limit:
                return
