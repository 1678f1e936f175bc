"""Greedy texts that ran into a dead end: the token that led there is taken back, and the next likely one is tried.

A text that is drawn would be begun again with other noise (`restarted`); a greedy one would say the same again. So the
way that led into the dead end is forbidden, and the text goes on from the place before: depth first, and the result is
the first text in the order of the model's preferences, place by place, that does not end in a dead end.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from constrained.decoding.request import DecodingRequest, dead_end_error
from constrained.decoding.sequence import TokenSequence
from constrained.models import LanguageModel
from constrained.sampling import Candidates, TokenSampler
from constrained.sampling.base import run_particles
from constrained.sampling.randomness import Ids

MAX_BACKTRACKS = 64
"""How many tokens of one text are taken back at most."""


class FilteredCandidates(Candidates):
    """Candidates without those that are known to lead into a dead end."""

    def __init__(self, candidates: Candidates, forbidden: Collection[int]) -> None:
        """Asks nothing.

        Args:
            candidates: what the constraint allows.
            forbidden: ids.
        """
        self._candidates = candidates
        self._forbidden = np.array(sorted(forbidden), dtype=np.intp)
        self.expensive_membership = candidates.expensive_membership

    @property
    def checks(self) -> int:  # type: ignore[override]
        """Questions asked so far."""
        return self._candidates.checks

    @property
    def cached(self) -> bool:
        """As for all."""
        return self._candidates.cached

    @property
    def ids(self) -> Ids:
        """Those that are left, ascending."""
        return np.setdiff1d(self._candidates.ids, self._forbidden, assume_unique=True)

    def permits(self, token: int) -> bool:
        """Whether it is left."""
        return token not in self._forbidden and self._candidates.permits(token)


def backtrack_decode(
    model: LanguageModel, task: DecodingRequest, sampler: TokenSampler, answer: TokenSequence
) -> TokenSequence:
    """A greedy text that does not end in a dead end.

    The prompt is read once more, and the text again after each step back, in one pass. `stats` counts what all of it cost,
    and `steps_back`.

    Args:
        model: reads the text.
        task: what is to be written, without randomness.
        sampler: proposes tokens.
        answer: a text that ran into a dead end.

    Raises:
        BudgetExhausted: there is no such text, or it takes more than `MAX_BACKTRACKS` steps back.
    """
    pool, before = task.particle_batch(model), answer.stats
    forbidden: list[set[int]] = []  # by place, of the text as it is
    for steps in range(1, MAX_BACKTRACKS + 1):
        length = len(answer.tokens)
        if not length:
            break
        del forbidden[length:]
        forbidden += [set() for _ in range(length - len(forbidden))]
        forbidden[-1].add(answer.tokens[-1])
        # Of the draws the last one found nothing, and the one before led there.
        (answer,) = pool.start([task.randomness(0)], [answer.draws[:-2]])
        answer.candidates = FilteredCandidates(answer.candidates, forbidden[-1])
        run_particles(pool, [answer], sampler)
        if answer.finish != "dead":
            stats = answer.stats
            stats.seed, stats.sequence = task.seed, task.sequence
            stats.forwards = before.forwards + pool.cost.forwards
            stats.checks = before.checks + pool.cost.checks
            stats.backtracked_tokens = steps
            return answer
    raise dead_end_error(1, task.params.automaton.constraint)
