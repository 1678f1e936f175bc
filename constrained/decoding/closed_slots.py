"""`closed_slot`: a place of a JSON text where few values may stand, such as an enumeration, a boolean or a bounded integer.

The state of the automaton says what a slot is, not the schema, so that tools, tags and grammars with JSON in them have slots, too. One
begins where more than one text may follow for the first time: what they share, such as a quote, is forced.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.protocol import DEAD, Automaton
from constrained.decoding.text_tree import TextTree
from constrained.errors import VocabularyError
from constrained.sampling.token_tree import TokenTree

if TYPE_CHECKING:
    from constrained.vocabulary import Vocabulary

MOST_TEXTS = 64
"""Texts of a slot."""
_MOST_BYTES = 2048
"""Bytes that are looked at to find them."""
_MOST_STATES = 1 << 14
"""States that are remembered of an automaton."""

_TAIL = 32
"""Tokens in which the quote of a string stands that has no value yet."""

_OPENED = re.compile(rb'[{:\[,]\s*"((?:[^"\\]|\\.)*)(\\?)\Z', re.DOTALL)
"""The end of a text, perhaps within an escape, in which a string is open: its quote stands where a name or value may begin."""
_REST = re.compile(rb'(?:[^"\\]|\\.)*"', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE = re.compile(rb"[-+.0-9A-Za-z]+")
_BEFORE = re.compile(rb"[:\s]*")
_NAME_END = re.compile(rb'"\s*:\s*')
_LETTERS = (b"a", b"q", b"z")
"""Letters that are all allowed in free text, and hardly ever in a closed one."""


@dataclass(frozen=True, eq=False)
class ClosedSlot:
    """The values that may stand in a slot.

    Attributes:
        tokens: of their texts, as the tokenizer writes them, without the quote that ends a string.
        tree: of these, as a pass reads it.
        ends: for each text the tokens of which one has to follow.
        goes_on: for each text whether another one begins with it.
        rests: for each text how many tokens have to follow, at least.
    """

    tokens: tuple[tuple[int, ...], ...]
    tree: TextTree
    ends: tuple[NDArray[np.intp], ...]
    goes_on: tuple[bool, ...]
    rests: tuple[int, ...]


_known: WeakKeyDictionary[Automaton, dict[tuple[int, bool], ClosedSlot | None]] = WeakKeyDictionary()


def closed_slot(automaton: Automaton, state: int, tokens: Sequence[int]) -> ClosedSlot | None:
    """The slot that begins at a state; None where none does. Looked for once for each state.

    Args:
        automaton: decides what may follow; for a vocabulary with a tokenizer, in which each byte is a token.
        state: one of its states, not dead.
        tokens: that lead to it.
    """
    # A vocabulary is equal to the same one without its tokenizer: what is remembered must not depend on that.
    vocabulary = automaton.vocabulary
    single = _byte_tokens(vocabulary) if vocabulary.has_tokenizer else {}  # empty: there are no slots
    letters = (automaton.next(state, single[one]) != DEAD for one in _LETTERS if one in single)
    if automaton.expensive_membership or all(letters):
        return None
    text = automaton.vocabulary.decode(tokens[-_TAIL:])
    opened = _OPENED.search(text)
    if opened is None and _BARE.match(text[-1:]):
        return None  # within a number or a word
    if opened is not None and (opened[2] or not _all_forced(automaton, tokens, text, opened.start(1))):
        return None
    found = _known.get(automaton)
    if found is None:
        found = _known.setdefault(automaton, {})
    key = (state, opened is not None)
    try:
        return found[key]
    except KeyError:
        slot = _slot(automaton, state, in_string=opened is not None)
        if len(found) >= _MOST_STATES:
            found.clear()
        found[key] = slot
        return slot


@lru_cache(maxsize=8)
def _byte_tokens(vocabulary: Vocabulary) -> dict[bytes, int]:
    """The token of each byte that a token begins with; empty where one has none."""
    single = vocabulary.ids_by_bytes
    first = {token[:1] for token in vocabulary.tokens if token}
    return {byte: single[byte] for byte in sorted(first)} if first <= single.keys() else {}


def _all_forced(automaton: Automaton, tokens: Sequence[int], text: bytes, begin: int) -> bool:
    """Whether nothing else could follow a quote than what does, from a place of the text to its end: no value has been chosen there yet."""
    if begin == len(text):
        return True
    count, place = len(tokens), len(text)
    while place > begin:
        count -= 1
        place -= len(automaton.vocabulary.tokens[tokens[count]])
    try:
        way = [*tokens[:count], *automaton.vocabulary.encode(text[place:begin])]
    except VocabularyError:
        return False
    states = [automaton.start, *automaton.walk(automaton.start, way)]
    return len(states) > len(way) and automaton.forced(states[-1]).startswith(text[begin:])


def _slot(automaton: Automaton, state: int, *, in_string: bool) -> ClosedSlot | None:
    texts = _texts(automaton, state, in_string, _byte_tokens(automaton.vocabulary))
    if texts is None or len(texts) < 2:
        return None
    spelled, ends, rests = [], [], []
    for text, is_string in texts:
        try:
            tokens = automaton.vocabulary.encode(text)
        except VocabularyError:
            return None
        states = [state, *automaton.walk(state, tokens)]
        if len(states) <= len(tokens):
            return None
        spelled.append(tuple(tokens))
        ends.append(_ends(automaton, states[-1], is_string))
        if not len(ends[-1]):
            return None
        rests.append(min(_rest(automaton, states[-1], end) for end in ends[-1].tolist()))
    goes_on = (any(other != text and other.startswith(text) for other, _ in texts) for text, _ in texts)
    tree = TextTree(TokenTree.of(spelled))
    return ClosedSlot(tuple(spelled), tree, tuple(ends), tuple(goes_on), tuple(rests))


def _rest(automaton: Automaton, state: int, end: int) -> int:
    """How many tokens complete a text whose value this one ends, at least; ends of sequence are not counted."""
    if end in automaton.vocabulary.eos_ids:
        return 0
    return 1 + automaton.shortest_completion(automaton.next(state, end))


def _ends(automaton: Automaton, state: int, is_string: bool) -> NDArray[np.intp]:
    """The tokens that end a text: a string with a quote, a number or a word with what is no part of one."""
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    ids = unpack_ids(mask)
    first = [automaton.vocabulary.tokens[token][:1] for token in ids.tolist()]
    return ids[[one == b'"' if is_string else not _BARE.match(one) for one in first]]


def _texts(
    automaton: Automaton, state: int, in_string: bool, single: Mapping[bytes, int]
) -> list[tuple[bytes, bool]] | None:
    """The values from a state on, without closing quotes, and whether each is a string; None where it is not closed."""
    vocabulary = automaton.vocabulary
    texts: list[tuple[bytes, bool]] = []
    left = _MOST_BYTES
    # What stands between a name and its value may be a part of the value's first token.
    named = _NAME_END.match(automaton.forced(state)) if in_string else _BEFORE.match(automaton.forced(state))
    lead = b"" if named is None else named.group()
    in_string = in_string and named is None
    open_texts = deque([(state, b"")])
    while open_texts:
        at, text = open_texts.popleft()
        forced = automaton.forced(at)
        known = (text + forced)[len(lead) :]
        is_string = in_string or known[:1] == b'"'
        value = ((_REST if in_string else _STRING) if is_string else _BARE).match(known)
        left -= 1 + len(forced)
        if value is not None and (is_string or value.end() < len(known)):
            spelled = lead + value.group()
            if is_string and _names(automaton, state, spelled):
                return None
            texts.append((spelled[: -1 if is_string else None], is_string))
            continue
        if known and not is_string and value is None:
            return None
        if forced:
            try:
                at, text = automaton.walk(at, vocabulary.encode(forced))[-1], text + forced
            except VocabularyError:
                return None
        states = ((byte, automaton.next(at, token)) for byte, token in single.items())
        following = {byte: after for byte, after in states if after != DEAD}
        if not is_string:
            going = {byte: after for byte, after in following.items() if _BARE.match(byte)}
            if known and (len(going) < len(following) or automaton.accepts(at)):
                texts.append((text, False))
            if not known and (
                automaton.accepts(at) or not all(byte == b'"' or byte in going for byte in following)
            ):
                return None  # an object, an array, white space, an end
            following = going if known else following
        if left < 0 or len(texts) + len(open_texts) + len(following) > MOST_TEXTS:
            return None
        open_texts.extend((after, text + byte) for byte, after in following.items())
    return sorted(texts)


def _names(automaton: Automaton, state: int, value: bytes) -> bool:
    """Whether a string is the name of a member: a colon may follow it."""
    colon = automaton.vocabulary.ids_by_bytes.get(b":")
    try:
        behind = automaton.walk(state, automaton.vocabulary.encode(value))
    except VocabularyError:
        return True
    return not behind or colon is None or automaton.next(behind[-1], colon) != DEAD
