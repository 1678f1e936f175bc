"""A language model that is an n-gram table of a few token sequences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from constrained.models.base import Prompt
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary


class NGramModel(FunctionModel):
    """An n-gram model with additive smoothing, so every token has a positive probability.

    p(a | u) = (n(c a) + smoothing / V) / (n(c) + smoothing), where c are the last ``order - 1`` tokens of u. Its
    completions are plausible locally, but brackets do not balance. The prompt has no influence.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        texts: Sequence[Sequence[int]],
        *,
        order: int = 2,
        smoothing: float = 0.5,
    ) -> None:
        """Counts the n-grams of some token sequences.

        Args:
            vocabulary: any with one end of sequence.
            texts: token ids of the training sequences, without EOS tokens.
            order: tokens of an n-gram, at least 1.
            smoothing: total of the pseudo-counts that are added to every context.
        """
        self.vocabulary = vocabulary
        self.order = order
        (self.eos,) = vocabulary.eos_ids
        seen: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for text in texts:
            whole = [*text, self.eos]
            for i, token in enumerate(whole):
                seen[self._context(whole[:i])][token] += 1
        possible = np.array([bool(piece) for piece in vocabulary.tokens])
        possible[self.eos] = True
        base = smoothing * possible / possible.sum()
        self._unseen = np.log(base / base.sum(), where=possible, out=np.full(len(base), -np.inf))
        self._rows: dict[tuple[int, ...], NDArray[np.float64]] = {}
        for context, counts in seen.items():
            row = base.copy()
            for token, count in counts.items():
                row[token] += count
            self._rows[context] = np.log(row / row.sum(), where=row > 0, out=np.full(len(row), -np.inf))

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """The EOS token, for any prompt."""
        return [self.eos]

    def logits(self, prompt: list[int], said: list[int]) -> NDArray[np.float64]:
        """Log p, float64."""
        row: NDArray[np.float64] = self._rows.get(self._context(said), self._unseen)
        return row

    def _context(self, said: Sequence[int]) -> tuple[int, ...]:
        """The last `order - 1` tokens; fewer at the start of a completion."""
        return tuple(said[len(said) - self.order + 1 :] if len(said) >= self.order else said)
