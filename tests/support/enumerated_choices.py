"""Enumeration of randomness: a run is repeated for every possible sequence of choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from constrained.sampling import Randomness
from constrained.sampling.randomness import TOKENS, Ids, Scores

T = TypeVar("T")


class EnumeratedRandomness(Randomness):
    """Replays a sequence of choices, and then always chooses the first possible outcome.

    Attributes:
        probability: probability of the choices so far.
    """

    def __init__(self, choices: list[int]) -> None:
        self.probability = 1.0
        self._choices = choices  # index of each choice among its possible outcomes
        self._options: list[int] = []

    def pick(self, scores: Scores, ids: Ids, place: int, purpose: int = TOKENS) -> int:
        """The next choice."""
        assert len(scores) == len(ids)
        p = np.exp(scores - scores.max())
        possible = np.flatnonzero(p)
        if len(possible) == 1:
            return int(possible[0])
        step = len(self._options)
        if step == len(self._choices):
            self._choices.append(0)
        self._options.append(len(possible))
        index = int(possible[self._choices[step]])
        self.probability *= float(p[index] / p.sum())
        return index

    def order(self, scores: Scores, ids: Ids, place: int) -> Iterator[int]:
        """Without replacement: one pick after the other."""
        left = list(np.flatnonzero(scores > -np.inf))
        while left:
            index = self.pick(scores[left], ids[left], place)
            yield int(left.pop(index))

    def uniform(self, count: int, place: int, purpose: int) -> Scores:
        """Raises NotImplementedError: uniform numbers cannot be enumerated."""
        raise NotImplementedError("a continuous choice cannot be enumerated")

    def advance(self) -> bool:
        """Advances to the next sequence of choices in lexicographic order; False after the last."""
        choices = self._choices
        while choices and choices[-1] + 1 == self._options[len(choices) - 1]:
            choices.pop()
        if choices:
            choices[-1] += 1
        return bool(choices)


def enumerate_outcomes(play: Callable[[EnumeratedRandomness], T]) -> Iterator[tuple[float, T]]:
    """Every outcome of a random run, with its probability.

    Args:
        play: the run; deterministic except for the randomness that it is passed.

    Yields:
        (probability, what `play` returned), once for each sequence of choices; the probabilities add up to 1.
    """
    choices: list[int] = []
    while True:
        randomness = EnumeratedRandomness(choices)
        outcome = play(randomness)
        yield randomness.probability, outcome
        if not randomness.advance():
            return
