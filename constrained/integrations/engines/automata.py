"""Compiled automata for the requests of an engine: one per language and set of stop ids."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from constrained.automaton import compile
from constrained.automaton.cache import lookup
from constrained.errors import VocabularyError
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.lru_cache import LRUCache
from constrained.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.integrations.engines.settings import EngineSettings

_STOP_SETS = 8
"""Vocabularies that are kept: requests of a server have few different sets of stop ids."""


def read_vocabulary(tokenizer: Any, size: int, memory_limit: int) -> Vocabulary:
    """The vocabulary of an engine's tokenizer.

    Args:
        tokenizer: of transformers, or of mistral-common, which vLLM wraps.
        size: columns of the logits.
        memory_limit: see `Vocabulary`.

    Raises:
        VocabularyError: the tokens have no exact bytes.
    """
    return Vocabulary.from_tokenizer(
        getattr(tokenizer, "mistral", tokenizer), size=size, memory_limit=memory_limit
    )


class Automata:
    """Compiles constraints, and keeps the automata that were used last. Safe to share between threads.

    Attributes:
        vocabulary: of the engine's model.
    """

    def __init__(self, vocabulary: Vocabulary, settings: EngineSettings) -> None:
        self.vocabulary = vocabulary
        self._vocabularies: LRUCache[frozenset[int], Vocabulary] = LRUCache(_STOP_SETS)
        self._automata: LRUCache[tuple[str, str], Automaton] = LRUCache(settings.automata)
        self._lock = threading.Lock()

    def compile(self, given: Mapping[str, Any], stop_ids: Iterable[int] | None = None) -> Automaton:
        """The automaton of a request.

        Args:
            given: see `request_constraint`.
            stop_ids: ids that end the sequence, and nothing else does; None: those of the tokenizer.

        Raises:
            ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
            VocabularyError: no token ends the sequence.
        """
        vocabulary = self._with_stop_ids(stop_ids)
        ready = lookup(given)
        if ready is not None and ready.vocabulary == vocabulary:
            return ready
        constraint = request_constraint(given)
        key = (vocabulary.fingerprint, constraint.key)
        known = self._automata.get(key)
        return known or self._automata.setdefault(key, compile(constraint, vocabulary))

    def clear(self) -> None:
        """Forgets all automata."""
        self._automata.clear()
        self._vocabularies.clear()

    def _with_stop_ids(self, stop_ids: Iterable[int] | None) -> Vocabulary:
        if stop_ids is None or (wanted := frozenset(stop_ids)) == frozenset(self.vocabulary.eos_ids):
            return self.vocabulary
        within = frozenset(token for token in wanted if 0 <= token < self.vocabulary.size)
        if not within:
            raise VocabularyError(
                "no token ends the sequence of this request",
                action="pass stop_token_ids, or set the tokenizer's eos_token",
            )
        with self._lock:  # one of two concurrent requests builds the tables
            known = self._vocabularies.get(within)
            return known or self._vocabularies.setdefault(within, self.vocabulary.with_eos_ids(within))
