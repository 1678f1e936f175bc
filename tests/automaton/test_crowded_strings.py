"""Strings of one length that must hold many texts, so that few completions are left: the judge counts them by what is still missing."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

from constrained.automaton import compile
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import json_schema
from constrained.errors import UnsatisfiableConstraint
from tests.support.finite import byte_vocabulary

BYTES = byte_vocabulary()


def completable(texts: tuple[str, ...], letters: str, length: int) -> functools._lru_cache_wrapper[bool]:
    """Whether a prefix, by its length, its end and the texts that it holds, has a completion."""
    longest = max(map(len, texts))

    @functools.cache
    def of(size: int, end: str, held: frozenset[str]) -> bool:
        if size == length:
            return len(held) == len(texts)
        for letter in letters:
            more = end + letter
            if of(size + 1, more[-longest:], held | {text for text in texts if more.endswith(text)}):
                return True
        return False

    return of


EIGHT = ("ab1", "b12", "bc1", "c12", "ca1", "a12", "ac", "a2")
LETTERS = "abc12"


def schema(texts: tuple[str, ...], length: int) -> dict[str, Any]:
    parts = [{"pattern": text} for text in texts]
    return {"type": "string", "allOf": [{"pattern": f"^[{LETTERS}]{{{length}}}$"}, *parts]}


@pytest.mark.ci
def test_without_room_for_all_texts_there_is_no_string() -> None:
    assert not completable(EIGHT, LETTERS, 14)(0, "", frozenset())
    with pytest.raises(UnsatisfiableConstraint):
        compile(json_schema(schema(EIGHT, 14)), BYTES)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("texts", "length"),
    [
        (EIGHT, 15),
        (EIGHT, 17),
        (("aab", "bba", "cab", "bcb", "acc"), 11),
        (("a1b", "b1c", "c1a", "1a1", "bb2"), 10),
    ],
)
def test_masks_are_the_letters_that_leave_a_completion(texts: tuple[str, ...], length: int) -> None:
    automaton = compile(json_schema(schema(texts, length)), BYTES)
    judge = completable(texts, LETTERS, length)
    mask, longest = automaton.new_mask(), max(map(len, texts))
    for seed in range(6):
        draw, text, state = random.Random(seed), "", automaton.next(automaton.start, ord('"'))
        while True:
            automaton.fill_mask(state, mask)
            allowed = {chr(token) for token in unpack_ids(mask).tolist() if token < 128}
            held = frozenset(part for part in texts if part in text)
            expected = {
                letter
                for letter in LETTERS
                if len(text) < length
                and judge(
                    len(text) + 1,
                    (text + letter)[-longest:],
                    held | {part for part in texts if (text + letter).endswith(part)},
                )
            }
            assert allowed & set(LETTERS) == expected, text
            assert ('"' in allowed) == (len(text) == length)
            if '"' in allowed:
                break
            text += draw.choice(sorted(expected))
            state = automaton.next(state, ord(text[-1]))
