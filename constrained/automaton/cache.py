"""Compiled automata: a cache by vocabulary and constraint; and by name, for engines in this process, whose requests hold a constraint as text."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from constrained.automaton.protocol import Automaton, is_automaton
from constrained.errors import InvalidArgument, ModelMismatch
from constrained.lru_cache import LRUCache

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary

CACHE_SIZE = 64
"""Automata in the cache; the least recently used one is evicted first."""

CACHE_BYTES = 1 << 30
"""Bytes that the automata in the cache may take together. They grow while they are used; what they share belongs to the vocabulary."""

_cache: LRUCache[tuple[str, str], Automaton] = LRUCache(CACHE_SIZE)
# Other libraries keep classes alive beyond the end of the interpreter, and with a class its module: native objects
# must be freed before that.
atexit.register(_cache.clear)
_sizes: WeakKeyDictionary[Automaton, int] = WeakKeyDictionary()
"""Bytes when they were last asked for."""


def compile_cached(target: Any, vocabulary: Vocabulary) -> tuple[Constraint, Automaton]:
    """The constraint and the automaton of a target.

    Args:
        target: a `Constraint`, what `as_constraint` takes (a type, a schema), or an `Automaton`.
        vocabulary: the model's.

    Raises:
        ConstraintError, ConstraintTooLarge: the constraint cannot be enforced.
        InvalidArgument: the target is an automaton without a constraint.
        ModelMismatch: the target is an automaton over another vocabulary.
    """
    if is_automaton(target):
        return _checked_constraint(target, vocabulary), target
    from constrained.automaton import compile
    from constrained.constraint import as_constraint

    constraint = as_constraint(target)
    key = (vocabulary.fingerprint, constraint.key)
    automaton = _cache.get(key)
    if automaton is None:
        automaton = _cache.setdefault(key, compile(constraint, vocabulary))  # one of two concurrent results
        fit()
    elif automaton.outgrown:  # texts that run keep it
        automaton = compile(constraint, vocabulary)
        _cache.put(key, automaton)
    return constraint, automaton


def fit(limit: int = CACHE_BYTES) -> int:
    """Evicts automata, the least recently used ones first, until the rest takes no more than `limit` bytes.

    Automata in use live on. Waits for no other thread: an automaton that one computes with counts as when it was last asked.

    Returns:
        Bytes of the automata that are left; the newest one stays in any case.
    """
    entries = _cache.items()
    total = sum(_bytes(automaton) for _, automaton in entries)
    for key, automaton in entries[:-1]:
        if total <= limit:
            break
        _cache.discard(key)
        total -= _sizes[automaton]
    return total


def _bytes(automaton: Automaton) -> int:
    """Bytes of an automaton's own tables."""
    relaxed = automaton.relaxed_automaton
    if not getattr(relaxed, "busy", False):
        memory = automaton.memory
        _sizes[automaton] = memory.get("bytes", 0) + memory.get("predicate_bytes", 0)
    return _sizes.setdefault(automaton, 0)


def clear() -> None:
    """Empties the cache; automata in use live on."""
    _cache.clear()


def _checked_constraint(automaton: Automaton, vocabulary: Vocabulary) -> Constraint:
    tokens, texts = automaton.vocabulary.special_tokens, automaton.vocabulary.special_texts
    expected = vocabulary.with_special_tokens(tokens) if tokens else vocabulary
    if automaton.vocabulary != (expected.with_special_texts(texts) if texts else expected):
        raise ModelMismatch(
            f"the automaton was compiled for {automaton.vocabulary!r}, the model has {vocabulary!r}",
            action="compile it with model.vocabulary, or pass the constraint itself",
        )
    if automaton.constraint is None:
        raise InvalidArgument(
            "the automaton has no constraint, so its texts have no values",
            action="compile it from a constraint: compile(json_schema(...), vocabulary)",
        )
    return automaton.constraint


_PREFIX = "%constrained "
"""No grammar begins like this."""

_registered: WeakValueDictionary[str, Automaton] = WeakValueDictionary()


def register(automaton: Automaton) -> str:
    """Registers an automaton for as long as it lives; its name goes into the field ``grammar`` of a request."""
    name = f"{_PREFIX}{id(automaton)}"
    _registered[name] = automaton
    return name


def lookup(given: Mapping[str, Any]) -> Automaton | None:
    """The registered automaton that the fields of a request name; None if they hold a constraint."""
    grammar = given.get("grammar")
    return _registered.get(grammar) if isinstance(grammar, str) and grammar.startswith(_PREFIX) else None
