"""The tokenizer's own tokens of text that is forced: names of members, the rest of an enumerated value, tags.

Where only one text can follow, masks allow every way to spell it, and a model takes whatever single token it likes best there
(`"is" "P" "ub" "l" "i" "c"`): more passes, and a context that it never saw in training. The tokenizer would write one of them.
"""

from __future__ import annotations

from typing import Literal
from weakref import WeakKeyDictionary

from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.errors import InvalidArgument, VocabularyError

Spelling = Literal["canonical", "any"]
"""How forced text is spelled: by the tokens that the tokenizer writes, or by any tokens of that text."""

_LONGEST = 128
"""Bytes of forced text that are looked at."""
_MOST_STATES = 1 << 16
"""States that are remembered of an automaton."""


_UNKNOWN = -1

_known: WeakKeyDictionary[Automaton, dict[int, int | None]] = WeakKeyDictionary()


def is_canonical(spelling: Spelling) -> bool:
    """Whether forced text has the tokenizer's tokens.

    Raises:
        InvalidArgument: there is no such spelling.
    """
    if spelling not in ("canonical", "any"):
        raise InvalidArgument(f"spelling is {spelling!r}", action="pass 'canonical' or 'any'")
    return spelling == "canonical"


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


def forced_within(automaton: Automaton, state: int, budget: int = NO_LIMIT) -> int | None:
    """As `forced_token`; None, too, where the text cannot be completed behind that token within a budget of tokens.

    Args:
        automaton: as there.
        state: as there.
        budget: tokens that may still follow, as for `Automaton.next_within`.
    """
    token = forced_token(automaton, state)
    if token is None or automaton.next_within(state, token, budget) == DEAD:
        return None
    return token


def _first_token(automaton: Automaton, state: int) -> int | None:
    text = automaton.forced(state)[:_LONGEST]
    vocabulary = automaton.vocabulary
    try:
        tokens = vocabulary.encode(text)
        # The tokenizer writes the name of a special token as that token, where it may stand, and no token across its edges.
        for at, _, name in sorted((text.find(n.encode()), -len(n), n) for n in vocabulary.special_texts):
            spelled = vocabulary.encode(text[: max(at, 0)])
            behind = [state, *automaton.walk(state, spelled)][-1]
            if at >= 0 and automaton.next(behind, vocabulary.special[name]) != DEAD:
                return spelled[0] if spelled else vocabulary.special[name]
    except VocabularyError:
        return None
    if not tokens:
        return None
    # Where a token may reach from here beyond the forced text, the tokenizer may join what is forced with what follows.
    joined = any(vocabulary.begins_token(text[at:]) for at in range(len(vocabulary.tokens[tokens[0]])))
    if joined and not automaton.only_eos([state, *automaton.walk(state, tokens)][-1], NO_LIMIT):
        return None
    return tokens[0]
