"""Masks that are found in walks over the vocabulary: the judge reads every token byte by byte, each one from the state itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from constrained.automaton import DEAD, Automaton, compile
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import Constraint, json_schema, lark, regex
from constrained.vocabulary import Vocabulary

LEADS = b"\xc0\xc2\xc3\xdf\xe0\xe1\xe2\xe3\xe4\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5"
CONTINUATIONS = (
    b"\x80\x81\x82\x8a\x8b\x8f\x90\x99\x9a\x9b\x9f\xa0\xa1\xa7\xa8\xa9\xaa\xae\xaf\xb0\xbb\xbc\xbf"
)
"""Where UTF-8 or the white space outside ASCII tells one continuation byte from the next."""

PATTERNS = {
    "white space": r"\S*\s\S+",
    "no white space": r"[^\s\d]+\d",
    "any text": ".+",
    "a word anywhere": ".*new.*",
    "two words anywhere": ".*(new|old ).*[.]",
    "one letter singled out": "[a-wyz]+(x[a-z]?)?",
    "hexadecimal": "([0-9a-f]{2})+.*",
    "letters": r"\w+(-\w+)*",
    "a block of Unicode": "[\u0800-\u0fff]+[^\u2028\u2029\ufeff]*",
    "characters of four bytes": "[^\U00010000-\U0001ffff]*[\U00020000-\U0010ffff].*",
    "counted": ".{2,40}[^a]{3}",
    "a word, and no other one": "(?=.*old)(?!.*new).*",
    "one of three words": "(?!.*new.*old|.*old.*new|.*(xa|ax)).*(new|old).*",
}


def vocabulary() -> Vocabulary:
    """Every byte, parts of characters at every boundary, and words whose letters come in many orders."""
    rng = random.Random(5)
    tokens = {bytes([byte]) for byte in range(256)}
    tokens |= {bytes(pair) for pair in product(LEADS, CONTINUATIONS)}
    for _ in range(1500):
        text = b"".join(
            rng.choice(
                (
                    bytes([rng.choice(LEADS)]),
                    bytes([rng.choice(CONTINUATIONS)]),
                    rng.choice("ané\u2028\u3000\U0001f600 ").encode(),
                )
            )
            for _ in range(rng.randint(2, 6))
        )
        tokens.add(text)
    for _ in range(1500):
        tokens.add("".join(rng.choices('newoldxafz09- ü."\\', k=rng.randint(2, 9))).encode())
    return Vocabulary.from_bytes([*sorted(tokens), b""], [len(tokens)])


VOCABULARY = vocabulary()


def walk(automaton: Automaton, rng: random.Random, steps: int) -> Iterator[int]:
    """States of a random text, most of whose tokens are long."""
    state = automaton.start
    for _ in range(steps):
        yield state
        allowed = [token for token in judged(automaton, state) if VOCABULARY.tokens[token]]
        if not allowed:
            return
        state = automaton.next(
            state,
            max(rng.sample(allowed, min(3, len(allowed))), key=lambda token: len(VOCABULARY.tokens[token])),
        )


def judged(automaton: Automaton, state: int) -> list[int]:
    """The tokens that the state allows."""
    return [token for token in range(len(VOCABULARY.tokens)) if automaton.next(state, token) != DEAD]


def check(constraint: Constraint, seed: int) -> None:
    automaton = compile(constraint, VOCABULARY)
    for state in walk(automaton, random.Random(seed), 6):
        row = automaton.new_mask()
        automaton.fill_mask(state, row)
        assert unpack_ids(row).tolist() == judged(automaton, state)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_allows_the_tokens_that_can_be_read(name: str) -> None:
    check(regex(PATTERNS[name]), 1)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_string_in_json_allows_the_tokens_that_can_be_read(name: str) -> None:
    check(json_schema({"type": "string", "pattern": PATTERNS[name]}), 2)


@pytest.mark.parametrize("name", ["white space", "letters", "a word anywhere"])
def test_a_lexer_allows_the_tokens_that_can_be_read(name: str) -> None:
    check(lark(f"start: (WORD | NUMBER)+\nWORD: /{PATTERNS[name]}/s\nNUMBER: /[0-9]+;/"), 3)
