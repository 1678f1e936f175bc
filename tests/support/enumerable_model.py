"""A model so small that all its sequences, and the distributions over them, can be enumerated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.models.base import Cache, Prompt
from constrained.testing.models import FunctionModel, TokenListCache
from constrained.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class EnumeratedDistributions:
    """Distributions over the strings of a language L, by string.

    Attributes:
        model: P(w), the model's probability of every string, also of strings outside L.
        conditional: P(w) / P(L).
        local: Q(w) = product of p f / Z, the distribution of local masking.
        mass: P(L).
    """

    model: dict[bytes, float]
    conditional: dict[bytes, float]
    local: dict[bytes, float]
    mass: float


class EnumerableModel(FunctionModel):
    """A model over a few letters whose completions have at most `depth` tokens, with random distributions.

    After `depth` tokens it stops with probability 1. The prompt has no influence.
    """

    _dtype = np.float64

    def __init__(
        self,
        *,
        seed: int = 0,
        letters: Sequence[bytes] = (b"a", b"b", b"c"),
        depth: int = 4,
        spread: float = 1.0,
    ) -> None:
        """Draws the distributions of all prefixes.

        Args:
            seed: of the distributions.
            letters: tokens; the end of sequence is one more id after them.
            depth: greatest number of tokens of a completion.
            spread: concentration of the Dirichlet prior of each distribution: a small one makes peaked distributions.
        """
        self.eos = len(letters)
        self.depth = depth
        self.vocabulary = Vocabulary.from_bytes([*letters, b""], [self.eos])
        random = np.random.default_rng(seed)
        self.rows: dict[tuple[int, ...], NDArray[np.float64]] = {}
        for length in range(depth):
            for prefix in itertools.product(range(self.eos), repeat=length):
                self.rows[prefix] = random.dirichlet([spread] * (self.eos + 1))
        self._end = np.eye(self.eos + 1)[self.eos]

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """One end of sequence, for any prompt."""
        return [self.eos]

    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """See `LanguageModel.forward`; in float64, so that distributions can be compared to 1e-12."""
        assert isinstance(cache, TokenListCache)
        rows = [self.logits(prompt, said) for prompt, said in cache.read(tokens)]
        return np.stack(rows)

    def logits(self, prompt: list[int], completion: list[int]) -> NDArray[np.floating[Any]]:
        """Log p, float64."""
        with np.errstate(divide="ignore"):
            logs: NDArray[np.float64] = np.log(self.rows.get(tuple(completion), self._end))
        return logs

    def sequences(self) -> list[tuple[int, ...]]:
        """All sequences, as token ids."""
        lengths = range(self.depth + 1)
        return [text for n in lengths for text in itertools.product(range(self.eos), repeat=n)]

    def distributions(
        self, language: Collection[bytes], *, certain_ends: bool = False
    ) -> EnumeratedDistributions:
        """The distributions for a language, from their definitions and the list of its strings, without an automaton.

        Args:
            language: the valid strings.
            certain_ends: an end has probability 1 where only the end can follow, as with ``ends="certain"``.
        """
        valid = {text: self.vocabulary.decode(text) in language for text in self.sequences()}
        viable = {text[:n] for text, good in valid.items() if good for n in range(len(text) + 1)}
        model: dict[bytes, float] = {}
        local: dict[bytes, float] = {}
        for text in valid:
            p, q = 1.0, 1.0
            for n in range(len(text) + 1):
                prefix = text[:n]
                row = self.rows.get(prefix, self._end)
                f = [valid[prefix] if a == self.eos else (*prefix, a) in viable for a in range(self.eos + 1)]
                only_end = valid[prefix] and sum(f) == 1
                a = text[n] if n < len(text) else self.eos
                if only_end and certain_ends:
                    row = self._end
                p *= row[a]
                q *= f[a] if only_end else row[a] * f[a] / math.fsum(row[f]) if any(f) else 0.0
            name = self.vocabulary.decode(text)
            model[name] = float(p)
            if valid[text]:
                local[name] = float(q)
        mass = math.fsum(model[name] for name in local)
        return EnumeratedDistributions(model, {name: model[name] / mass for name in local}, local, mass)
