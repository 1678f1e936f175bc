"""Compiles the constraint of a request in a sandbox first, so that a hostile one costs a bounded time."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from constrained.automaton import compile
from constrained.automaton.cache import lookup
from constrained.constraint import ebnf, json_schema, lark
from constrained.errors import ConstrainedError, ConstraintTooLarge, InvalidConstraint, WorkerError
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.lru_cache import LRUCache
from constrained.sandbox import FORKS, Sandbox, SandboxFailed, SandboxTimeout

if TYPE_CHECKING:
    from constrained.integrations.engines.settings import EngineSettings
    from constrained.vocabulary import Vocabulary

_OUTCOMES = 4096
"""Constraints whose outcome is remembered; the least recently used one is evicted."""

_MAX_NESTING = 200
"""Levels of arrays and objects: what encodes requests for the engine recurses, and so do other front ends."""

_NO_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"?|[^][{}]')  # a string that does not end is taken whole: linear


class Trial:
    """Decides whether constraints can be enforced. Safe to share between threads, which wait for each other."""

    def __init__(self, vocabulary: Vocabulary, settings: EngineSettings) -> None:
        self._vocabulary = vocabulary
        self._settings = settings
        self._sandbox = Sandbox(
            vocabulary.without_tokenizer(), settings.compile_seconds, settings.compile_memory, _warm
        )
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
            WorkerError: something ended the process that compiled it.
        """
        ready = lookup(given)
        if ready is not None:
            return ready.shortest_completion(ready.start)
        text = self._text(given)
        digest = hashlib.sha256(text.encode()).digest()
        outcome = self._outcomes.get(digest)
        if outcome is None:
            with self._lock:
                outcome = self._outcomes.get(digest)
                if outcome is None:
                    outcome = self._try(text)
                    self._outcomes.put(digest, outcome)
        if isinstance(outcome, ConstrainedError):
            raise outcome.with_traceback(None)
        return outcome

    def close(self) -> None:
        """Kills the process."""
        self._sandbox.close()

    def _text(self, given: Mapping[str, Any]) -> str:
        try:
            text = json.dumps(given)
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
        check_nesting(text)
        for name in ("json", "structural_tag"):
            if isinstance(value := given.get(name), str):
                check_nesting(value)
        return text

    def _try(self, text: str) -> int | ConstrainedError:
        if not FORKS:
            return _outcome(self._vocabulary, text)
        try:
            outcome: int | ConstrainedError = self._sandbox.run(_outcome, text)
        except SandboxTimeout:
            return ConstraintTooLarge(
                f"the constraint was not compiled within {self._settings.compile_seconds:g} seconds",
                action="simplify it, or raise compile_seconds",
            )
        except MemoryError:
            return ConstraintTooLarge(
                "compiling the constraint exceeds the memory limit", action="simplify it"
            )
        except SandboxFailed as failed:
            what = f"the process that compiled the constraint ended with {failed.code}"
            if failed.crashed:
                return ConstraintTooLarge(what, action="simplify it")
            raise WorkerError(what, action="send the request again") from None  # and it is not remembered
        return outcome


def check_nesting(text: str) -> None:
    """Compares the depth of a JSON text with what a front end can send to its engine.

    Raises:
        ConstraintTooLarge: arrays and objects are nested too deeply.
    """
    brackets = _NO_BRACKETS.sub("", text)
    depth = max(accumulate((1 if bracket in "[{" else -1 for bracket in brackets), initial=0))
    if depth > _MAX_NESTING:
        raise ConstraintTooLarge(
            f"the constraint is nested too deeply: {depth} levels, and the limit is {_MAX_NESTING}",
            action="use $ref and $defs",
        )


def _warm(vocabulary: Vocabulary) -> None:
    grammars = (ebnf('root ::= "a"'), lark('start: "a"'))
    for constraint in (json_schema({"properties": {"a": {"pattern": "a"}}}), *grammars):
        compile(constraint, vocabulary)


def _outcome(vocabulary: Vocabulary, text: str) -> int | ConstrainedError:
    try:
        automaton = compile(request_constraint(json.loads(text)), vocabulary)
        automaton.fill_mask(automaton.start, automaton.new_mask())
        return automaton.shortest_completion(automaton.start)
    except ConstrainedError as error:
        return error
