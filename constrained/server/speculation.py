"""What the texts of a server guess ahead, and learn from each other."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from constrained.automaton.cache import CACHE_SIZE, compile_cached
from constrained.decoding.speculation import DraftScheduler, Speculation
from spec.memory import DraftMemory

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.constraint import Constraint
    from constrained.models import LanguageModel


class SpeculationCache:
    """The drafts of all constraints, with one memory. Safe to share between threads.

    Attributes:
        shared: decides how many guesses a pass of the whole batch reads.
    """

    def __init__(self, speculation: Speculation, model: LanguageModel) -> None:
        """Learns nothing yet.

        Args:
            speculation: the configuration; a memory in it is used.
            model: whose texts.
        """
        self._chains = model.no_trees is not None
        self._speculation = replace(speculation, memory=speculation.memory or DraftMemory())
        self._known: OrderedDict[str, tuple[Automaton, DraftScheduler]] = OrderedDict()
        self._lock = threading.Lock()
        constraint, automaton = compile_cached({"type": "object"}, model.vocabulary)
        self.shared = self.for_constraint(constraint, automaton)

    def for_constraint(self, constraint: Constraint, automaton: Automaton) -> DraftScheduler:
        """Those of a constraint; made once while it is in use."""
        with self._lock:
            known = self._known.get(constraint.key)
            if known is not None and known[0] is automaton:
                self._known.move_to_end(constraint.key)
                return known[1]
        made = DraftScheduler(self._speculation, automaton, constraint, chains=self._chains)
        with self._lock:
            self._known[constraint.key] = automaton, made
            while len(self._known) > CACHE_SIZE:
                self._known.popitem(last=False)
        return made
