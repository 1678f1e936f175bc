"""Automata that are compiled already: one for each pair of vocabulary and language."""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from constrained.errors import InvalidArgument, ModelMismatch

if TYPE_CHECKING:
    from constrained.automaton import TokenAutomaton
    from constrained.constraint import Constraint
    from constrained.vocabulary import Vocabulary

CACHE_SIZE = 64
"""Automata kept; the least recently used goes first."""

_kept: OrderedDict[tuple[str, str], TokenAutomaton] = OrderedDict()
_lock = threading.Lock()
# Other libraries keep classes, and with them modules, beyond the end of the interpreter: native objects must not be in
# there then.
atexit.register(_kept.clear)


def compile_cached(target: Any, vocabulary: Vocabulary) -> tuple[Constraint, TokenAutomaton]:
    """What was asked for, as a constraint and as an automaton.

    Args:
        target: a `Constraint`, or what stands for one (a type, a schema); or an automaton.
        vocabulary: the model's.

    Raises:
        ConstraintError, ConstraintTooLarge: it cannot be enforced.
        InvalidArgument: an automaton that was not compiled from a constraint.
        ModelMismatch: an automaton was compiled for another vocabulary.
    """
    if hasattr(target, "fill_mask_within"):
        marks = target.vocabulary.special_tokens
        if target.vocabulary != (vocabulary.with_special_tokens(marks) if marks else vocabulary):
            raise ModelMismatch(
                f"the automaton was compiled for {target.vocabulary!r}, the model has {vocabulary!r}",
                action="compile it with model.vocabulary, or pass the constraint itself",
            )
        if target.constraint is None:
            raise InvalidArgument(
                "the automaton was made from a grammar: nothing says what value a text of it has",
                action="compile it from a constraint: compile(json_schema(...), vocabulary)",
            )
        return target.constraint, target
    from constrained.automaton import compile
    from constrained.constraint import as_constraint

    constraint = as_constraint(target)
    key = (vocabulary.fingerprint, constraint.key)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return constraint, _kept[key]
    automaton = compile(
        constraint, vocabulary
    )  # outside the lock: of two threads that do it, one result is kept
    with _lock:
        automaton = _kept.setdefault(key, automaton)
        while len(_kept) > CACHE_SIZE:
            _kept.popitem(last=False)
    return constraint, automaton
