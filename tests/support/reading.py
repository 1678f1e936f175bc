"""Texts that an automaton reads."""

from __future__ import annotations

from constrained.automaton import Automaton


def accepts(automaton: Automaton, text: str) -> bool:
    """Whether an automaton over single bytes, each the token of its number, accepts a text."""
    data = list(text.encode())
    states = automaton.walk(automaton.start, data)
    return len(states) == len(data) and automaton.accepts(states[-1] if states else automaton.start)
