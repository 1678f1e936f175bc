"""Backtracking for greedy sequences that reached a dead end: remove the last token and try the next likely one.

A sampled sequence is restarted with other random numbers (`restart_decode`); a greedy one would repeat its tokens. The
search is depth first, so its result is the first completion in the model's order of preference, position by position,
that does not end in a dead end.
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
"""Most backtracking steps for one sequence."""


class FilteredCandidates(Candidates):
    """Candidate tokens without those that are known to lead into a dead end."""

    def __init__(self, candidates: Candidates, forbidden: Collection[int]) -> None:
        """Wraps candidate tokens.

        Args:
            candidates: the tokens that the constraint allows.
            forbidden: token ids to leave out.
        """
        self._candidates = candidates
        self._forbidden = np.array(sorted(forbidden), dtype=np.intp)
        self.expensive_membership = candidates.expensive_membership
        self.only_ends, self.eos_ids = candidates.only_ends, candidates.eos_ids

    @property
    def checks(self) -> int:  # type: ignore[override]
        """Membership checks so far."""
        return self._candidates.checks

    @property
    def cached(self) -> bool:
        """Whether the mask of the wrapped candidates is cached."""
        return self._candidates.cached

    @property
    def ids(self) -> Ids:
        """The remaining token ids, ascending."""
        return np.setdiff1d(self._candidates.ids, self._forbidden, assume_unique=True)

    def permits(self, token: int) -> bool:
        """Whether a token is allowed and not forbidden."""
        return token not in self._forbidden and self._candidates.permits(token)

    @property
    def limit_excludes(self) -> bool:
        """See `Candidates.limit_excludes`."""
        return self._candidates.limit_excludes

    def without_limit(self) -> FilteredCandidates:
        """The remaining candidates without a token limit."""
        return FilteredCandidates(self._candidates.without_limit(), self._forbidden.tolist())


def backtrack_decode(
    model: LanguageModel, task: DecodingRequest, sampler: TokenSampler, answer: TokenSequence
) -> TokenSequence:
    """A greedy completion that does not end in a dead end.

    Reads the prompt once more, and after each step the whole sequence in one forward pass. `stats` counts the work of
    all steps, and `backtracked_tokens`. Where the token limit changed a sequence that was given up, it has changed the
    completion too.

    Args:
        model: the language model.
        task: the greedy request.
        sampler: proposes tokens.
        answer: a sequence that reached a dead end.

    Raises:
        BudgetExhausted: such a completion does not exist, or needs more than `MAX_BACKTRACKS` steps.
    """
    pool, before = task.particle_batch(model), answer.stats
    forbidden: list[set[int]] = []  # by position of the current sequence
    path = answer.unlimited_path
    for steps in range(1, MAX_BACKTRACKS + 1):
        length = len(answer.tokens)
        if not length:
            break
        del forbidden[length:]
        forbidden += [set() for _ in range(length - len(forbidden))]
        forbidden[-1].add(answer.tokens[-1])
        # The last draw found the dead end; the draw before it chose the token that led there.
        (answer,) = pool.start([task.randomness(0)], [answer.draws[:-2]])
        answer.candidates = FilteredCandidates(answer.candidates, forbidden[-1])
        run_particles(pool, [answer], sampler)
        if answer.finish != "dead":
            stats = answer.stats
            stats.seed, stats.sequence = task.seed, task.sequence
            stats.forwards = before.forwards + pool.cost.forwards
            stats.checks = before.checks + pool.cost.checks
            stats.backtracked_tokens = steps
            answer.mark_divergence(path)
            return answer
        path = path or answer.unlimited_path
    raise dead_end_error(1, task.params.automaton.constraint)
