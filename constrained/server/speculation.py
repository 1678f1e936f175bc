"""Speculation in the server: draft schedulers by constraint, with one shared memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from constrained.automaton.cache import CACHE_SIZE, compile_cached
from constrained.decoding.speculation import DraftScheduler, Speculation
from constrained.lru_cache import LRUCache
from constrained.spec.prior import new_memory

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
        self._speculation = replace(speculation, memory=speculation.memory or new_memory(model.vocabulary))
        self._schedulers: LRUCache[str, tuple[Automaton, DraftScheduler]] = LRUCache(CACHE_SIZE)
        constraint, automaton = compile_cached({"type": "object"}, model.vocabulary)
        self.shared = self.for_constraint(constraint, automaton)

    def for_constraint(self, constraint: Constraint, automaton: Automaton) -> DraftScheduler:
        """The draft scheduler of a constraint, from the cache if it is there."""
        cached = self._schedulers.get(constraint.key)
        if cached is not None and cached[0] is automaton:
            return cached[1]
        scheduler = DraftScheduler(self._speculation, automaton, constraint, chains=self._chains)
        self._schedulers.put(constraint.key, (automaton, scheduler))
        return scheduler
