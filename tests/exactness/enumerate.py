"""A model that is a table, and the exact distribution of its completions by enumeration; shares no code with
`constrained.testing` or `constrained.sampling`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from tests.exactness.prefix_model import PrefixModel


class TableModel(PrefixModel):
    """A model whose distribution after a completion is `distribution(completion)`, probabilities [V]."""

    def __init__(
        self, pieces: Sequence[bytes], distribution: Callable[[tuple[int, ...]], Sequence[float]]
    ) -> None:
        super().__init__(pieces)
        self.end = self.ends[0]
        self.distribution = distribution

    def logits(self, completion: tuple[int, ...]) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.distribution(completion), dtype=np.float64))

    def mass(self, language: Collection[bytes]) -> dict[bytes, float]:
        """P of each text of a finite language over one-byte tokens, with its end."""
        found = {}
        for text in language:
            ids = tuple(self.vocabulary.tokens.index(bytes([byte])) for byte in text)
            p = math.prod(float(self.distribution(ids[:i])[token]) for i, token in enumerate(ids))
            found[text] = p * float(self.distribution(ids)[self.end])
        return found


def random_tables(seed: int, size: int, spread: float = 1.0) -> Callable[[tuple[int, ...]], np.ndarray]:
    """A random distribution over `size` ids for each completion."""
    rows: dict[tuple[int, ...], np.ndarray] = {}

    def distribution(completion: tuple[int, ...]) -> np.ndarray:
        if completion not in rows:
            random = np.random.default_rng([seed, len(completion), *completion])
            rows[completion] = random.dirichlet([spread] * size)
        return rows[completion]

    return distribution
