"""Texts of a limited number of tokens judged by every way to cut a text into parts, over a small vocabulary."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

from constrained import Automaton, Vocabulary
from constrained.automaton.bitmask import unpack_ids

PIECES = [
    *(bytes([one]) for one in b"a<>/"), "é".encode()[:1], "é".encode()[1:],
    b"aa", b"a/", b"/>", b"/>a", b"<a", b"</", b"a<", "aé".encode()[:2], "é/".encode()[1:], "é".encode(), b"/></", b"><",
]  # fmt: skip
EOS = len(PIECES)
VOCABULARY = Vocabulary.from_bytes([*PIECES, b""], [EOS])


class Part(NamedTuple):
    """A part of a text: exactly `text`, or free text of at most `most` tokens without `excludes`; `whole`: one token.

    Attributes:
        pattern: of the free text: all of it matches.
    """

    text: bytes | None = None
    most: int | None = None
    excludes: tuple[bytes, ...] = ()
    whole: bool = False
    pattern: str | None = None


def is_free(part: Part, data: bytes) -> bool:
    """Whether a text is one of a free part, tokens not counted."""
    try:
        shown = data.decode()
    except UnicodeDecodeError:
        return False
    if part.pattern is not None and not re.fullmatch(part.pattern, shown):
        return False
    return not any(text in data for text in part.excludes)


@lru_cache(None)
def fewest(part: Part, data: bytes) -> int:
    """The fewest tokens that complete a free text, if 2 are enough; 9: they are not."""
    for count in range(3):
        for tokens in product(PIECES, repeat=count):
            if is_free(part, data + b"".join(tokens)):
                return count
    return 9


def holds(part: Part, data: bytes, start: int, end: int, begins: list[int], *, ended: bool) -> bool:
    """Whether a part is `data[start:end]`, or begins so. `begins`: where tokens begin, and where the last one ends."""
    text = data[start:end]
    if part.text is not None:
        return text == part.text if ended else part.text.startswith(text) and text != part.text
    inside = [at for at in begins if start <= at < end]
    if part.whole:
        if not ended:
            return start == end and start in begins
        return is_free(part, text) and len(inside) == 1 and start in begins and end in begins
    if part.most is None:
        return is_free(part, text) if ended else fewest(part, text) < 9
    between = [at for at in begins if start < at <= end and (at < end or not ended)]
    counted = [(at, sum(one < at for one in inside)) for at in between]
    if any(fewest(part, data[start:at]) > part.most - used for at, used in counted):
        return False
    return len(inside) <= part.most and (not ended or is_free(part, text))


def cuts(parts: tuple[Part, ...], data: bytes, begins: list[int], *, ended: bool) -> bool:
    """Whether tokens are a text of these parts, or (not `ended`) begin one."""

    @cache
    def rest(number: int, start: int) -> bool:
        if number == len(parts):
            return start == len(data)
        for end in range(start, len(data) + 1):
            if holds(parts[number], data, start, end, begins, ended=True) and rest(number + 1, end):
                return True
        return not ended and holds(parts[number], data, start, len(data), begins, ended=False)

    return rest(0, 0)


def judged(ways: list[tuple[Part, ...]], tokens: list[int], *, ended: bool) -> bool:
    """Whether one of several sequences of parts allows these tokens."""
    data = b"".join(PIECES[token] for token in tokens)
    begins = [sum(len(PIECES[token]) for token in tokens[:at]) for at in range(len(tokens) + 1)]
    return any(cuts(parts, data, begins, ended=ended) for parts in ways)


def walks(automaton: Automaton, seed: str, count: int, length: int) -> Iterator[tuple[int, list[int]]]:
    """The states of random walks, with the tokens that led there."""
    chance = random.Random(seed)
    mask = automaton.new_mask()
    for _ in range(count):
        state, tokens = automaton.start, list[int]()
        while len(tokens) < length:
            yield state, tokens
            automaton.fill_mask(state, mask)
            allowed = [token for token in unpack_ids(mask).tolist() if token != EOS]
            if not allowed:
                break
            tokens.append(chance.choice(allowed))
            state = automaton.next(state, tokens[-1])


def check_masks(automaton: Automaton, ways: list[tuple[Part, ...]], seed: str, length: int = 6) -> None:
    """Masks and transitions on random walks of so many tokens are those of the judge."""
    known: dict[tuple[int, ...], set[int]] = {}
    for state, tokens in walks(automaton, seed, 40, length):
        if (key := tuple(tokens)) not in known:
            known[key] = {
                token
                for token in range(EOS)
                if judged(ways, [*tokens, token], ended=False) or judged(ways, [*tokens, token], ended=True)
            }
            if judged(ways, tokens, ended=True):
                known[key].add(EOS)
        mask = automaton.new_mask()
        automaton.fill_mask(state, mask)
        assert set(unpack_ids(mask).tolist()) == known[key], (seed, [PIECES[one] for one in tokens])
        assert {token for token in range(EOS + 1) if automaton.next(state, token)} == known[key]


def check_limits(automaton: Automaton, seed: str) -> None:
    """Within any limit of the whole text, some token leads to the end."""
    for state, _ in walks(automaton, seed, 20, 6):
        for budget in range(automaton.shortest_completion(state), automaton.shortest_completion(state) + 3):
            mask = automaton.new_mask()
            automaton.fill_mask_within(state, mask, budget)
            allowed = unpack_ids(mask).tolist()
            assert allowed
            within = {token for token in range(EOS + 1) if automaton.next_within(state, token, budget)}
            assert set(allowed) <= within
            assert any(
                token == EOS or automaton.shortest_completion(automaton.next(state, token)) < budget
                for token in allowed
            )
