"""Automata of this process by name, for engines inside it, whose requests hold a constraint as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from constrained.automaton import Automaton

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
