"""Speculation in the server: draft schedulers by constraint, with one shared memory."""

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
    """Draft schedulers of the most recently used constraints, with one memory. Safe to share between threads.

    Attributes:
        shared: sets the draft budget of the whole batch.
    """

    def __init__(self, speculation: Speculation, model: LanguageModel) -> None:
        """Creates the cache and the scheduler `shared`.

        Args:
            speculation: the configuration; its memory is used if it has one.
            model: the language model.
        """
        self._chains = model.no_trees is not None
        self._speculation = replace(speculation, memory=speculation.memory or DraftMemory())
        self._known: OrderedDict[str, tuple[Automaton, DraftScheduler]] = OrderedDict()
        self._lock = threading.Lock()
        constraint, automaton = compile_cached({"type": "object"}, model.vocabulary)
        self.shared = self.for_constraint(constraint, automaton)

    def for_constraint(self, constraint: Constraint, automaton: Automaton) -> DraftScheduler:
        """The draft scheduler of a constraint, from the cache if it is there."""
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
