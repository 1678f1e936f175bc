"""The cost of exact samples while a trie learns, block by block, and without a trie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.decoding import Generator
from constrained.errors import BudgetExhausted
from constrained.models import LanguageModel, Prompt
from constrained.sampling import CARS, Rejection, Tries


@dataclass(frozen=True, slots=True)
class LearningBlock:
    """Some texts of a longer series.

    Attributes:
        texts: how many came.
        attempts: texts that were begun for them.
        forwards: rows of forward passes, identical prefixes computed once.
        complete: whether all that were wanted came within the budget.
    """

    texts: int
    attempts: int
    forwards: int
    complete: bool = True

    @property
    def forwards_per_text(self) -> float:
        """Rows per text that came; infinite where none did."""
        return self.forwards / self.texts if self.texts else float("inf")


def sample_blocks(
    model: LanguageModel,
    constraint: Any,
    prompt: Prompt,
    *,
    learns: bool,
    blocks: Sequence[int] = (10,) * 10,
    attempts: int = 1000,
    parallel: int = 1,
    seed: int = 0,
    **settings: Any,
) -> Iterator[LearningBlock]:
    """Samples from the exact conditional distribution in blocks, with the cost of each block.

    Args:
        model: writes the texts.
        constraint: any.
        prompt: what for.
        learns: CARS with a trie that all blocks share; otherwise plain rejection.
        blocks: texts of each block.
        attempts: budget for each text.
        parallel: attempts made side by side; 1 shows what learning saves and nothing else.
        seed: of the noise; every block is a sequence of its own.
        settings: of the call.

    Yields:
        A block; one that ran out of its budget is the last.
    """
    sampler = CARS(attempts, parallel, Tries()) if learns else Rejection(attempts, parallel)
    generator = Generator(model, constraint, sampler=sampler, speculation=None)
    for number, size in enumerate(blocks):
        try:
            drawn = generator.sample(prompt, size, seed=seed, sequence=number, **settings)
        except BudgetExhausted as error:
            learned = error.diagnostics
            yield LearningBlock(learned["accepted"], learned["attempts"], learned["forwards"], complete=False)
            return
        yield LearningBlock(len(drawn), drawn.attempts, drawn.forwards)
