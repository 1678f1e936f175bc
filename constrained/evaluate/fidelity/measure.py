"""Sets of texts of one task, and how far each is from the exact law."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from constrained.decoding import Generator
from constrained.errors import BudgetExhausted
from constrained.evaluate.fidelity import rows as r
from constrained.evaluate.fidelity.rows import Block, Law, Row
from constrained.evaluate.fidelity.samplers import ENTRIES
from constrained.evaluate.fidelity.tasks import Task
from constrained.evaluate.learning import series
from constrained.models import LanguageModel
from constrained.testing import Exact, divergence, exact_laws, g_test, total_variation

_FLOOR_SETS = 200
"""Sets of exact draws that the floor is the mean of."""


class Measured:
    """A task with a model, its exact law written down.

    Args:
        task: what is asked for.
        model: a loaded model, or None for the task's own.
        budget: beginnings to visit at most.

    Raises:
        TooManyTexts: the law cannot be written down within the budget.
    """

    def __init__(self, task: Task, model: LanguageModel | None, budget: int) -> None:
        from constrained.automaton import compile

        self.task = task
        self.model = model or task.model()
        self.named = "n-gram" if model is None else repr(model)
        self.prompt: Any = self.model.encode(task.prompt)
        automaton = compile(task.constraint, self.model.vocabulary)
        self.exact: Exact = exact_laws(self.model, automaton, task.limit, prompt=self.prompt, budget=budget)

    def law(self, sizes: Sequence[int]) -> Law:
        """What is known without drawing."""
        exact = self.exact
        return Law(
            self.task.name,
            self.named,
            len(exact.conditional),
            exact.prefixes,
            exact.mass,
            exact.distance,
            divergence(exact.local, exact.conditional),
            {size: self.floor(size) for size in sizes},
        )

    def floor(self, size: int) -> float:
        """The mean total variation between the exact law and `size` draws from it."""
        p = np.array(list(self.exact.conditional.values()))
        sets = np.random.default_rng(0).multinomial(size, p / p.sum(), _FLOOR_SETS) / size
        return float(0.5 * np.abs(sets - p).sum(axis=1).mean())

    def sets(
        self, sampler: str, sizes: Sequence[int], repeats: int, seed: int, time_limit: float
    ) -> Iterator[Row]:
        """A row for each size and repetition; stops after the first that is too dear."""
        last = 0.0
        for i, size in enumerate(sizes):
            if i and last * size / sizes[i - 1] > time_limit:
                yield Row(self.task.name, sampler, size, outcome=r.TOO_SLOW)
                return
            for repeat in range(repeats):
                row = self.drawn(sampler, size, repeat, seed)
                yield row
                if row.outcome != r.DRAWN:
                    return
                last = row.seconds

    def drawn(self, sampler: str, size: int, repeat: int, seed: int) -> Row:
        """One set."""
        entry = ENTRIES[sampler]
        row = Row(self.task.name, sampler, size, repeat)
        generator = Generator(self.model, self.task.constraint, sampler=entry.make(), draft=None)
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
            row.attempts = int(error.learned.get("attempts", 0))
            return row
        row.drawn = len(found)
        row.forwards, row.checks, row.tokens = found.forwards, found.checks, found.tokens
        row.attempts, row.accepted, row.seconds = found.attempts, found.accepted, found.seconds
        counts = Counter(output.text for output in found)
        law = found.posterior if entry.weighted else {text: n / len(found) for text, n in counts.items()}
        row.distance = total_variation(law, self.exact.conditional)
        row.divergence = divergence(law, self.exact.conditional)
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
    ) -> Iterator[Block]:
        """Forwards for one block of texts after the other: of CARS with one memory, or of rejection.

        Stops after the first block that took longer than the limit, in seconds.
        """
        began = time.perf_counter()
        blocks = series(
            self.model,
            self.task.constraint,
            self.prompt,
            learns=sampler == "cars",
            blocks=(block,) * (texts // block),
            seed=seed,
            temperature=1.0,
            max_tokens=self.task.limit,
        )
        for number, done in enumerate(blocks):
            if done.complete:
                first = number * block + 1
                yield Block(self.task.name, sampler, first, first + block - 1, done.forwards)
            if time.perf_counter() - began > time_limit:
                return
            began = time.perf_counter()
