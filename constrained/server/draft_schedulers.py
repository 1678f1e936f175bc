"""`DraftSchedulers`: what drafts of the requests' constraints are made with."""

from __future__ import annotations

from dataclasses import replace

from constrained.automaton import Automaton
from constrained.automaton.cache import CACHE_SIZE, compile_cached
from constrained.constraint import Constraint
from constrained.decoding.speculation import DraftScheduler, Speculation
from constrained.lru_cache import LRUCache
from constrained.models import LanguageModel
from constrained.spec.prior import new_memory


class DraftSchedulers:
    """Draft schedulers of the constraints used last, with one memory. Safe to share between threads.

    Attributes:
        shared: sets the draft budget of the whole batch.
        speculation: the configuration, with the memory.

    Args:
        speculation: the configuration; its memory is used if it has one.
        model: the language model.
    """

    def __init__(self, speculation: Speculation, model: LanguageModel) -> None:
        self._chains = model.no_trees is not None
        self.speculation = replace(speculation, memory=speculation.memory or new_memory(model.vocabulary))
        self._schedulers: LRUCache[str, tuple[Automaton, DraftScheduler]] = LRUCache(CACHE_SIZE)
        self.shared = self.for_constraint(*compile_cached({"type": "object"}, model.vocabulary))

    def for_constraint(self, constraint: Constraint, automaton: Automaton) -> DraftScheduler:
        """The draft scheduler of a constraint, from the cache if it is there."""
        cached = self._schedulers.get(constraint.key)
        if cached is not None and cached[0] is automaton:
            return cached[1]
        scheduler = DraftScheduler(self.speculation, automaton, constraint, chains=self._chains)
        self._schedulers.put(constraint.key, (automaton, scheduler))
        return scheduler
