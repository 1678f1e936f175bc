"""Compiles the constraint of a request in a sandbox first, so that a hostile one costs a bounded time."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from constrained.automaton import compile
from constrained.constraint import ebnf, json_schema, lark
from constrained.errors import ConstrainedError, ConstraintTooLarge, InvalidConstraint
from constrained.integrations.vllm.request_constraint import request_constraint
from constrained.lru_cache import LRUCache
from constrained.sandbox import FORKS, Sandbox, SandboxFailed, SandboxTimeout

if TYPE_CHECKING:
    from constrained.integrations.vllm.settings import VllmSettings
    from constrained.vocabulary import Vocabulary

_OUTCOMES = 4096
"""Constraints whose outcome is remembered; the least recently used one is evicted."""


class Trial:
    """Decides whether constraints can be enforced. Safe to share between threads, which wait for each other."""

    def __init__(self, vocabulary: Vocabulary, settings: VllmSettings) -> None:
        self._vocabulary = vocabulary
        self._settings = settings
        self._sandbox = Sandbox(vocabulary, settings.compile_seconds, settings.compile_memory, _warm)
        self._outcomes: LRUCache[bytes, int | ConstrainedError] = LRUCache(_OUTCOMES)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Starts the process, without waiting for it."""
        if FORKS:
            self._sandbox.start()

    def shortest(self, given: Mapping[str, Any]) -> int:
        """Number of tokens of the shortest completion, end of sequence not counted.

        Args:
            given: see `request_constraint`.

        Raises:
            ConstrainedError: the constraint cannot be enforced, or is not compiled within the limits.
        """
        digest = self._digest(given)
        outcome = self._outcomes.get(digest)
        if outcome is None:
            with self._lock:
                outcome = self._outcomes.get(digest)
                if outcome is None:
                    outcome = self._try(given)
                    self._outcomes.put(digest, outcome)
        if isinstance(outcome, ConstrainedError):
            raise outcome.with_traceback(None)
        return outcome

    def close(self) -> None:
        """Kills the process."""
        self._sandbox.close()

    def _digest(self, given: Mapping[str, Any]) -> bytes:
        try:
            text = json.dumps(given, sort_keys=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidConstraint(
                f"structured_outputs is not JSON: {error}", action="send JSON values"
            ) from None
        size, limit = len(text), self._settings.max_schema
        if size > limit:
            raise ConstraintTooLarge(
                f"the constraint has {size} bytes, and the limit is {limit}",
                action="send a smaller one, or raise max_schema",
            )
        return hashlib.sha256(text.encode()).digest()

    def _try(self, given: Mapping[str, Any]) -> int | ConstrainedError:
        if not FORKS:
            return _outcome(self._vocabulary, dict(given))
        try:
            outcome: int | ConstrainedError = self._sandbox.run(_outcome, dict(given))
        except SandboxTimeout:
            return ConstraintTooLarge(
                f"the constraint was not compiled within {self._settings.compile_seconds:g} seconds",
                action="simplify it, or raise compile_seconds",
            )
        except SandboxFailed as failed:
            return ConstraintTooLarge(
                f"the process that compiled the constraint ended with {failed.code}", action="simplify it"
            )
        return outcome


def _warm(vocabulary: Vocabulary) -> None:
    grammars = (ebnf('root ::= "a"'), lark('start: "a"'))
    for constraint in (json_schema({"properties": {"a": {"pattern": "a"}}}), *grammars):
        compile(constraint, vocabulary)


def _outcome(vocabulary: Vocabulary, given: Mapping[str, Any]) -> int | ConstrainedError:
    try:
        automaton = compile(request_constraint(given), vocabulary)
        automaton.fill_mask(automaton.start, automaton.new_mask())
        return automaton.shortest_completion(automaton.start)
    except MemoryError:
        return ConstraintTooLarge("compiling the constraint exceeds the memory limit", action="simplify it")
    except ConstrainedError as error:
        return error
