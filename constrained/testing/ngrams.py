"""A language model that has read a few texts: an n-gram table, and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from constrained.models.base import Prompt
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary


class NGramModel(FunctionModel):
    """Knows which token comes after the last few, as counted in some texts, and takes anything else for possible.

    p(a | u) = (n(c a) + smoothing / V) / (n(c) + smoothing), where c are the last ``order - 1`` tokens of u. So it
    writes what looks right from near, and forgets what was opened. The prompt plays no part.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        texts: Sequence[Sequence[int]],
        *,
        order: int = 2,
        smoothing: float = 0.5,
    ) -> None:
        """Counts.

        Args:
            vocabulary: any with one end of sequence.
            texts: token ids of the texts that it has read, without their ends.
            order: tokens of an n-gram, at least 1.
            smoothing: how often, in all, every context has seen every token besides.
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
        """One end of sequence, whatever the prompt."""
        return [self.eos]

    def logits(self, prompt: list[int], said: list[int]) -> NDArray[np.float64]:
        """Log p, float64."""
        row: NDArray[np.float64] = self._rows.get(self._context(said), self._unseen)
        return row

    def _context(self, said: Sequence[int]) -> tuple[int, ...]:
        """The last tokens; fewer at the beginning of a text."""
        return tuple(said[len(said) - self.order + 1 :] if len(said) >= self.order else said)
