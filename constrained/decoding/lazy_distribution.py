"""`LazyDistribution`: a next-token distribution whose logits may still be on a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.models import Logits
from constrained.sampling import Distribution, LogitsWarper, Randomness

_FEW = 1024
"""Tokens whose logits are copied by themselves, where the row is not needed for something else."""


class LazyDistribution(Distribution):
    """A distribution whose logits are copied to the host only when all of them are needed.

    Keys (scaled logit + Gumbel noise) computed on a device are rounded. The host therefore recomputes the keys of the
    device's top tokens from their exact logits, and uses a key only if it exceeds the bound on the keys of all other
    tokens. So the draw equals that from all logits.
    """

    def __init__(self, logits: Logits, place: int, warp: LogitsWarper) -> None:
        """Refers to one position of a forward pass.

        Args:
            logits: of the forward pass.
            place: index of the position in it.
            warp: the logits warper.
        """
        super().__init__(None, warp)
        self._read = logits
        self._place = place
        self._best = logits.top_keys(place)

    @property
    def logits(self) -> NDArray[np.floating[Any]]:
        """The model's logits, floating [V]."""
        return self._read.row(self._place)

    @cached_property
    def _known(self) -> dict[int, float]:
        """Scaled logits of the top tokens, which need no copy of all logits."""
        if self._best is None:
            return {}
        scores = self._warp.scale(self._best.logits)
        return dict(zip(self._best.ids.tolist(), scores.tolist(), strict=True))

    def scaled_of(self, ids: NDArray[np.intp]) -> NDArray[np.float64]:
        """See `Distribution.scaled_of`; where a device knows the log-sum-exp, a few tokens need no copy of all logits."""
        if self._best is None or len(ids) > _FEW or "scaled" in self.__dict__:
            return super().scaled_of(ids)
        return self._warp.scale(self._read.some(self._place, ids))

    def _total(self) -> float:
        return super()._total() if self._best is None else self._best.logsumexp

    def log_prob(self, token: int) -> float:
        """Log-probability of one token, in nats."""
        score = self._known.get(token)
        return super().log_prob(token) if score is None else score - self.normaliser

    def gumbel_top_k(self, chance: Randomness, place: int, count: int) -> Sequence[int]:
        """See `Distribution.gumbel_top_k`; may return fewer tokens: those whose order is certain."""
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
