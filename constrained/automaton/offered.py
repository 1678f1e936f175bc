"""Automata of this process by name, for engines in it whose requests hold a constraint as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from constrained.automaton import Automaton

_PREFIX = "%constrained "
"""No grammar begins like this."""

_offered: WeakValueDictionary[str, Automaton] = WeakValueDictionary()


def offer(automaton: Automaton) -> str:
    """A text that stands for an automaton, as long as it lives, in the field ``grammar`` of a request."""
    name = f"{_PREFIX}{id(automaton)}"
    _offered[name] = automaton
    return name


def offered(given: Mapping[str, Any]) -> Automaton | None:
    """The automaton that the fields of a request name; None if they hold a constraint, as requests of others do."""
    grammar = given.get("grammar")
    return _offered.get(grammar) if isinstance(grammar, str) and grammar.startswith(_PREFIX) else None
