"""What drafting remembers beyond one text: tables that sources fill, and how often they were right.

Bounded, and bound to one vocabulary.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from spec.calibration import Calibration
from spec.sources.counts import Counts
from spec.sources.forced import Literals
from spec.sources.recycle import Rows
from spec.sources.suffix import Past

CONSTRAINTS = 64
"""Constraints whose own tables are kept; the one that was not used for longest makes room."""


class Scope:
    """What was learned under one constraint.

    Attributes:
        ngrams: contexts of tokens.
        slots: of JSON values.
        past: texts.
    """

    def __init__(self) -> None:
        self.ngrams = Counts(1 << 17)
        self.slots = Counts(1 << 17)
        self.past = Past()


class Memory:
    """What was learned over one vocabulary. Safe to share between threads: a draft holds the lock.

    Attributes:
        lock: held while anything here is read or changed.
        calibration: how often guesses came true.
        ngrams: contexts of tokens, under all constraints.
        slots: of JSON values, under all constraints.
        rows: the model's runners-up.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.calibration = Calibration()
        self.ngrams = Counts()
        self.slots = Counts()
        self.rows: Rows = {}
        self._scopes: OrderedDict[str, Scope] = OrderedDict()

    def scope(self, constraint: str) -> Scope:
        """What was learned under a constraint, by its key."""
        with self.lock:
            scope = self._scopes.setdefault(constraint, Scope())
            self._scopes.move_to_end(constraint)
            while len(self._scopes) > CONSTRAINTS:
                self._scopes.popitem(last=False)
            return scope


__all__ = ["CONSTRAINTS", "Literals", "Memory", "Scope"]
