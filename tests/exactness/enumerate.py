"""A model that is a table, and the exact distribution of its completions by enumeration; shares no code with
`constrained.testing` or `constrained.sampling`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from constrained.models import Cache, LanguageModel
from constrained.vocabulary import Vocabulary


class TokenRows(Cache):
    """The tokens of each row."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.rows]

    def keep(self, rows: Sequence[int]) -> None:
        self.rows = [list(self.rows[row]) for row in rows]

    def fork(self, rows: Sequence[int]) -> Cache:
        twin = copy.deepcopy(self)
        twin.keep(rows)
        return twin


class TableModel(LanguageModel):
    """A model whose distribution after a completion is `distribution(completion)`, probabilities [V].

    Its prompt is one token, an end of sequence. `read` counts the rows that were read.
    """

    def __init__(
        self, pieces: Sequence[bytes], distribution: Callable[[tuple[int, ...]], Sequence[float]]
    ) -> None:
        self.vocabulary = Vocabulary.from_bytes([*pieces, b""], [len(pieces)])
        self.end = len(pieces)
        self.distribution = distribution
        self.read = 0

    def encode(self, prompt, *, chat=True) -> list[int]:
        return [self.end]

    def cache(self, rows: int) -> Cache:
        return TokenRows([[] for _ in range(rows)])

    def forward(self, tokens, cache):
        assert isinstance(cache, TokenRows)
        found = []
        for row, new in zip(cache.rows, tokens, strict=True):
            row.extend(new)
            self.read += 1
            with np.errstate(divide="ignore"):
                found.append(np.log(np.asarray(self.distribution(tuple(row[1:])), dtype=np.float64)))
        return np.stack(found)

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


def chi_square(counts: dict[bytes, int], exact: dict[bytes, float]) -> float:
    """Survival probability of the G statistic (Wilson and Hilferty's approximation of the chi-square distribution)."""
    total, mass = sum(counts.values()), math.fsum(exact.values())
    assert not set(counts) - set(exact)
    g = 2 * math.fsum(n * math.log(n * mass / (total * exact[text])) for text, n in counts.items() if n)
    freedom = len(exact) - 1
    z = ((max(g, 1e-12) / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc(z / math.sqrt(2))
