"""The tokenizer's own tokens of text that is forced: names of members, the rest of an enumerated value, tags.

Where only one text can follow, masks allow every way to spell it, and a model takes whatever single token it likes best there
(`"is" "P" "ub" "l" "i" "c"`): more passes, and a context that it never saw in training. The tokenizer would write one of them.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from constrained.automaton.protocol import Automaton
from constrained.errors import VocabularyError

_LONGEST = 128
"""Bytes of forced text that are looked at."""
_MOST_STATES = 1 << 16
"""States that are remembered of an automaton."""


_UNKNOWN = -1

_known: WeakKeyDictionary[Automaton, dict[int, int | None]] = WeakKeyDictionary()


def forced_token(automaton: Automaton, state: int) -> int | None:
    """The token that the tokenizer writes next, whatever follows the forced text. Found once for each state.

    Args:
        automaton: decides what is forced.
        state: one of its states, not dead.

    Returns:
        None where nothing is forced, where what follows decides how the tokenizer writes it, and in a vocabulary without a tokenizer.
    """
    found = _known.get(automaton)
    if found is None:
        found = _known.setdefault(automaton, {})
    token = found.get(state, _UNKNOWN)
    if token == _UNKNOWN:
        token = _first_token(automaton, state) if automaton.vocabulary.has_tokenizer else None
        if len(found) >= _MOST_STATES:  # other threads may read it: they find nothing, and look again
            found.clear()
        found[state] = token
    return token


def _first_token(automaton: Automaton, state: int) -> int | None:
    text = automaton.forced(state)[:_LONGEST]
    vocabulary = automaton.vocabulary
    try:
        first = vocabulary.encode(text)[0] if text else None
    except VocabularyError:
        return None
    if first is None:
        return None
    # Where a token may reach from here beyond the forced text, the tokenizer may join what is forced with what follows.
    joined = any(vocabulary.begins_token(text[at:]) for at in range(len(vocabulary.tokens[first])))
    return None if joined else first
