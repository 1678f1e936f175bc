"""The texts of a language that has few of them, and their tokens."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.protocol import DEAD, NO_LIMIT, Automaton
from constrained.errors import VocabularyError

if TYPE_CHECKING:
    from constrained.vocabulary import Vocabulary

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
    first_bytes, is_single = _beginnings(vocabulary)
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
        allowed = unpack_ids(mask)
        following = allowed[is_single[allowed]].tolist()
        beginnings = np.bincount(first_bytes[allowed] + 1, minlength=1)[1:]  # without ends
        left -= len(forced) + len(following)
        if (
            len(following) < np.count_nonzero(beginnings)
            or len(texts) + len(open_texts) + len(following) > most
            or left < 0
        ):
            return None
        open_texts.extend(
            (automaton.next(state, token), text + vocabulary.tokens[token]) for token in following
        )
    return sorted(texts)


@lru_cache(maxsize=16)
def _beginnings(vocabulary: Vocabulary) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
    """The first byte of each token, -1 for an end, and whether it is the token of a single byte."""
    first_bytes = np.array([token[0] if token else -1 for token in vocabulary.tokens], dtype=np.int16)
    first_bytes[list(vocabulary.eos_ids)] = -1
    is_single = np.zeros(len(first_bytes), dtype=bool)
    single = vocabulary.ids_by_bytes
    is_single[[single[byte] for byte in (bytes((value,)) for value in range(256)) if byte in single]] = True
    is_single[list(vocabulary.eos_ids)] = False
    return first_bytes, is_single
