"""The model's law at a place that a pass has read, whose logits may be on a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.models import Logits
from constrained.sampling import Distribution, LogitsWarper, Randomness


class LazyDistribution(Distribution):
    """A law whose row comes to the host only when somebody looks at the whole of it.

    What a device says of keys is rounded. So keys that decide are made here, from the exact logits of the few tokens that
    can have the largest ones, and a token leads only where no other one can come before it: the draw is that of the
    whole row.
    """

    def __init__(self, logits: Logits, place: int, warp: LogitsWarper) -> None:
        """Asks nothing.

        Args:
            logits: by a pass.
            place: of it.
            warp: the temperature.
        """
        super().__init__(None, warp)
        self._read = logits
        self._place = place
        self._best = logits.top_keys(place)

    @property
    def logits(self) -> NDArray[np.floating[Any]]:
        """The model's, floating [V]."""
        return self._read.row(self._place)

    @cached_property
    def _known(self) -> dict[int, float]:
        """Scores of tokens whose row need not be fetched."""
        if self._best is None:
            return {}
        scores = self._warp.scale(self._best.logits)
        return dict(zip(self._best.ids.tolist(), scores.tolist(), strict=True))

    def _total(self) -> float:
        return super()._total() if self._best is None else self._best.logsumexp

    def log_prob(self, token: int) -> float:
        """Log p of one token."""
        score = self._known.get(token)
        return super().log_prob(token) if score is None else score - self.normaliser

    def gumbel_top_k(self, chance: Randomness, place: int, count: int) -> Sequence[int]:
        """As for all; those of which it is certain."""
        best = self._best
        if best is None or (best.noise != chance.noise and not self._warp.greedy):
            return super().gumbel_top_k(chance, place, count)
        able = best.logits > -np.inf
        ids = best.ids[able]
        if self._warp.greedy:
            return ids[:count].tolist()  # type: ignore[no-any-return]
        assert chance.noise is not None
        keys = self._warp.scale(best.logits[able]) + chance.noise.gumbel(place, ids)
        order = np.lexsort((ids, -keys))
        return ids[order[keys[order] > best.bound]][:count].tolist()  # type: ignore[no-any-return]
