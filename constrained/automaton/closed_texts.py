"""The texts of a language that has few of them, and their tokens."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.errors import VocabularyError

MOST_TEXTS = 512
"""Texts of a language that is still enumerated."""
_MOST_BYTES = 1 << 16
"""Bytes of all of them."""


@dataclass(frozen=True, slots=True)
class ClosedText:
    """A text of a closed language.

    Attributes:
        text: its bytes.
        tokens: as the tokenizer writes it.
        only_end: whether nothing but the end can follow it.
    """

    text: bytes
    tokens: tuple[int, ...]
    only_end: bool


_known: WeakKeyDictionary[Automaton, tuple[ClosedText, ...] | None] = WeakKeyDictionary()
_lock = threading.Lock()


def closed_language(automaton: Automaton) -> tuple[ClosedText, ...] | None:
    """The texts of an automaton with their tokens; None where they are not closed, see `closed_texts`, or have no tokens."""
    with _lock:
        if automaton in _known:
            return _known[automaton]
    texts = closed_texts(automaton)
    found = None if texts is None else _spelled(automaton, texts)
    with _lock:
        _known[automaton] = found
    return found


def _spelled(automaton: Automaton, texts: list[bytes]) -> tuple[ClosedText, ...] | None:
    made = []
    for text in texts:
        try:
            tokens = automaton.vocabulary.encode(text)
        except VocabularyError:
            return None
        states = automaton.walk(automaton.start, tokens)
        if len(states) < len(tokens):
            return None
        state = states[-1] if states else automaton.start
        made.append(ClosedText(text, tuple(tokens), automaton.only_eos(state, NO_LIMIT)))
    return tuple(made)


def closed_texts(automaton: Automaton, most: int = MOST_TEXTS) -> list[bytes] | None:
    """All texts of an automaton's language, in the order of their bytes.

    Args:
        automaton: compiled for a vocabulary in which each byte of the texts is a token by itself.
        most: texts.

    Returns:
        None where there are more of them, or where they cannot be enumerated: a predicate decides about them, or one of
        their bytes is no token.
    """
    if automaton.expensive_membership or automaton.start == DEAD:
        return None
    vocabulary = automaton.vocabulary
    single = vocabulary.ids_by_bytes
    bytes_of = {single[byte]: byte for byte in (bytes((value,)) for value in range(256)) if byte in single}
    mask = automaton.new_mask()
    texts: list[bytes] = []
    left = _MOST_BYTES
    open_texts = deque([(automaton.start, b"")])
    while open_texts:
        state, text = open_texts.popleft()  # breadth first: free text has too many beginnings at once
        # What is forced takes one step, also where some of its bytes are no tokens.
        forced = automaton.forced(state)
        if forced:
            try:
                tokens = vocabulary.encode(forced)
            except VocabularyError:
                return None
            states = automaton.walk(state, tokens)
            state, text = states[-1], text + forced
        if automaton.accepts(state):
            texts.append(text)
        automaton.fill_mask(state, mask)
        allowed = [token for token in unpack_ids(mask).tolist() if token not in vocabulary.eos_ids]
        following = [(bytes_of[token], token) for token in allowed if token in bytes_of]
        first_bytes = {vocabulary.tokens[token][:1] for token in allowed}
        left -= len(forced) + len(following)
        if (
            len(following) < len(first_bytes)
            or len(texts) + len(open_texts) + len(following) > most
            or left < 0
        ):
            return None
        open_texts.extend((automaton.next(state, token), text + byte) for byte, token in following)
    return sorted(texts)
