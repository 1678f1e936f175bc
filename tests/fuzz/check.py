"""One random constraint: a typed error, or an automaton that agrees with the naive judge along a random walk."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

from constrained.automaton import DEAD, Automaton, compile_grammar
from constrained.automaton.bitmask import unpack_ids
from constrained.constraint import Constraint
from constrained.errors import ConstraintError, ConstraintTooLarge, UnsupportedConstraint
from constrained.vocabulary import Vocabulary
from tests.support.judge import ReferenceRecognizer
from tests.support.masks import brute_force_mask, mask_diff

STEPS = 12
LARGE = 400
"""Rules and parts of rules beyond which the judge is too slow."""


@functools.cache
def vocabulary() -> Vocabulary:
    """Every byte, and tokens across the seams of JSON and inside characters."""
    pieces = ['"a', '":', '",', "[[", "]]", '{"', "ab", "ba", "12", ", ", "é€", "aaa", "null", "\n  "]
    odd = [b"", b"a\xe2\x82", b'\xac"', b"\x9f\x98\x80", b"ab", b"\xff\xfe"]
    tokens = [*(bytes((byte,)) for byte in range(256)), *map(str.encode, pieces), *odd, b""]
    return Vocabulary.from_bytes(tokens, [len(tokens) - 1])


def check(make: Callable[[], Constraint], seed: int) -> str:
    """Compiles and walks what `make` makes; returns what became of it: an error's name, or how it was walked."""
    try:
        constraint = make()
        automaton = compile_grammar(constraint.grammar, vocabulary(), constraint=constraint)
    except (ConstraintError, ConstraintTooLarge) as error:
        return type(error).__name__
    judge = _judge(automaton)
    _walk(automaton, judge, random.Random(seed))
    return "judged" if judge else "walked"


def _judge(automaton: Automaton) -> ReferenceRecognizer | None:
    if automaton.memory["expressions"] > LARGE:
        return None
    try:
        return ReferenceRecognizer(automaton.grammar)
    except (
        UnsupportedConstraint,
        ConstraintTooLarge,
    ):  # entries that must be distinct; counts that it unfolds
        return None


def _walk(automaton: Automaton, judge: ReferenceRecognizer | None, draw: random.Random) -> None:
    tokens, ends = automaton.vocabulary.tokens, set(automaton.vocabulary.eos_ids)
    row, state, text = automaton.new_mask(), automaton.start, b""
    for _ in range(STEPS):
        automaton.fill_mask(state, row)
        allowed = [int(token) for token in unpack_ids(row)]
        assert allowed, f"a dead end after {text!r}"
        assert automaton.accepts(state) == bool(ends.intersection(allowed))
        left, forced = automaton.shortest_completion(state), automaton.forced(state)
        assert (left == 0) == automaton.accepts(state)
        try:
            wanted, at = (
                judge and brute_force_mask(judge, text, automaton.vocabulary),
                judge and judge.after(text),
            )
        except ConstraintTooLarge:  # what the judge unfolds grows with the text
            judge = wanted = at = None
        if wanted is not None:
            difference = mask_diff(row, wanted)
            assert not difference, f"after {text!r}: {difference}"
            assert at is not None
            assert automaton.accepts(state) == at.complete
        texts = [token for token in allowed if token not in ends]
        for token in draw.sample(texts, min(8, len(texts))):
            assert automaton.next(state, token) != DEAD
            assert tokens[token].startswith(forced[: len(tokens[token])]) or forced.startswith(tokens[token])
        if not texts:
            return
        token = draw.choice(texts)
        state, text = automaton.next(state, token), text + tokens[token]
    _finish(automaton, state)


def _finish(automaton: Automaton, state: int) -> None:
    """The shortest way out is really one: every step within the budget that it promises."""
    row, left = automaton.new_mask(), automaton.shortest_completion(state)
    while 0 < left <= 40:
        automaton.fill_mask_within(state, row, left + 1)
        after: list[Any] = [automaton.next(state, int(token)) for token in unpack_ids(row)]
        state = min(after, key=automaton.shortest_completion)
        assert automaton.shortest_completion(state) < left
        left = automaton.shortest_completion(state)
