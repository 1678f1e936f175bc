"""Candidates that are checked one by one, as a predicate's are, and count the checks."""

from __future__ import annotations

import numpy as np

from constrained.sampling import Candidates


class Asked(Candidates):
    """A list that is not known beforehand."""

    cached = False

    def __init__(self, ids, *, costly: bool = False) -> None:
        self._ids = np.asarray(ids, dtype=np.intp)
        self._set = set(self._ids.tolist())
        self.expensive_membership = costly
        self.checks = 0
        self.rows = 0

    @property
    def ids(self):
        if not self.rows:
            self.rows += 1
            self.checks += 1
        return self._ids

    def permits(self, token: int) -> bool:
        self.checks += 1
        return token in self._set
