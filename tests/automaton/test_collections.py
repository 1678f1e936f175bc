"""States that no text needs are dropped, and computed again when one does: nobody can tell from the answers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import constrained
from constrained.automaton import Automaton
from constrained.automaton.bitmask import unpack_ids
from constrained.automaton.cache import compile_cached
from constrained.constraint import Constraint, gbnf, json_schema, lark, regex
from constrained.vocabulary import Vocabulary
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

KIB = 1 << 10
LIST = """
start: item ("," item)*
item: NAME | NUMBER | "(" start ")" | "[" start "]" | "if" NAME "then" item
NAME: /[a-z]{1,9}/
NUMBER: /[0-9]+/
%ignore " "
"""
NESTS = (b"(", b"[", b")", b"]", b",", b"a", b"x", b"{", b"}", b'"', b":", b"1")
NEW_STATES_FOR_EVERY_TEXT = {
    "keys that differ": json_schema({"type": "object", "minProperties": 2}),
    "items that differ": json_schema(
        {"type": "array", "items": {"type": "string", "pattern": "^[a-f]{1,9}$"}, "uniqueItems": True}
    ),
    "members in any order": json_schema(
        {
            "type": "object",
            "properties": {key: {"type": "integer"} for key in "abcdefgh"},
            "required": ["b", "g"],
        },
        property_order="any",
    ),
    "objects that differ": json_schema(
        {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y", 1, 1.0]}},
                "required": ["b"],
                "additionalProperties": False,
            },
        }
    ),
    "a lexer": lark(LIST),
    "a stack": gbnf('root ::= "(" root ")" | "[" root root "]" | "x"'),
    "ambiguous": gbnf('root ::= root2 root2 | "a"\nroot2 ::= "a" | "b" root | "b" root2 "b"'),
}


def texts(automaton: Automaton, count: int, steps: int) -> list[list[tuple[int, bytes, int]]]:
    """Random texts as (state, mask, completion) before each token; the choices do not depend on the ids of states."""
    rng = random.Random(3)
    made = []
    row = automaton.new_mask()
    for _ in range(count):
        state, text = automaton.start, []
        for _ in range(steps):
            automaton.fill_mask(state, row)
            text.append((state, row.tobytes(), automaton.shortest_completion(state)))
            allowed = [
                token for token in unpack_ids(row).tolist() if token not in automaton.vocabulary.eos_ids
            ]
            if not allowed:
                break
            state = automaton.next(state, rng.choice(allowed))
        made.append(text)
    return made


@pytest.mark.parametrize("name", NEW_STATES_FOR_EVERY_TEXT)
def test_answers_do_not_depend_on_collections(name: str) -> None:
    constraint = NEW_STATES_FOR_EVERY_TEXT[name]
    vocabulary = small_bpe_vocabulary()
    remembers = constrained.compile(constraint, vocabulary)
    forgets = constrained.compile(constraint, vocabulary, memory_limit=0)
    expected, found = texts(remembers, 6, 25), texts(forgets, 6, 25)
    assert remembers.memory["collections"] == 0 < forgets.memory["collections"]
    assert [[step[1:] for step in text] for text in found] == [
        [step[1:] for step in text] for text in expected
    ]
    row = forgets.new_mask()
    for text in found:  # states of texts that ended long ago
        for state, mask, completion in random.Random(1).sample(text, min(len(text), 8)):
            budget = completion + 1
            forgets.fill_mask_within(state, row, budget)
            assert unpack_ids(row).size > 0
            forgets.fill_mask(state, row)
            assert row.tobytes() == mask
            assert forgets.shortest_completion(state) == completion


def content(automaton: Automaton) -> int:
    size = automaton.memory
    return size["bytes"] - size["memo_bytes"]


def grown(constraint: Constraint, vocabulary: Vocabulary, limit: int) -> tuple[int, int]:
    """Bytes of states after 20 texts, and after 60."""
    automaton = constrained.compile(constraint, vocabulary, memory_limit=limit)
    texts(automaton, 20, 60)
    early = content(automaton)
    texts(automaton, 60, 60)
    return early, content(automaton)


@pytest.mark.ci
def test_memory_of_texts_is_bounded() -> None:
    constraint = json_schema(
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}
    )
    limit = 256 * KIB
    _, bounded = grown(constraint, small_bpe_vocabulary(), limit)
    _, unbounded = grown(constraint, small_bpe_vocabulary(), 1 << 30)
    assert bounded < 2 * limit < unbounded


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("objects that differ", 4000), ("a lexer", 300)])
def test_many_texts_leave_little_but_their_ids(name: str, count: int) -> None:
    constraint, vocabulary, limit = NEW_STATES_FOR_EVERY_TEXT[name], small_bpe_vocabulary(), 256 * KIB
    automaton = constrained.compile(constraint, vocabulary, memory_limit=limit)
    rng, row = random.Random(5), automaton.new_mask()
    for _ in range(count):
        state = automaton.start
        for _ in range(30):
            automaton.fill_mask(state, row)
            allowed = [token for token in unpack_ids(row).tolist() if token not in vocabulary.eos_ids]
            if not allowed:
                break
            nested = [token for token in allowed if vocabulary.tokens[token] in NESTS]
            state = automaton.next(state, rng.choice(nested or allowed))
    size = automaton.memory
    assert size["collections"] > 2
    assert size["bytes"] < 4 * limit + 600 * size["states_given_out"]


@pytest.mark.parametrize(("shared_limit", "states"), [(1 << 40, (1 << 17) + 1), (0, (1 << 12) + 1)])
def test_new_texts_get_a_new_automaton_once_the_old_one_has_given_out_many_states(
    shared_limit: int, states: int
) -> None:
    small = small_bpe_vocabulary()
    vocabulary = Vocabulary.from_bytes(list(small.tokens), small.eos_ids, memory_limit=shared_limit)
    constraint = regex(f"a{{0,{states + shared_limit % 7}}}")  # a key in the cache of its own
    _, automaton = compile_cached(constraint, vocabulary)
    letter = vocabulary.ids_by_bytes[b"a"]
    last = automaton.walk(automaton.start, [letter] * (states - 1))[-1]
    assert compile_cached(constraint, vocabulary)[1] is automaton
    last = automaton.next(last, letter)
    _, renewed = compile_cached(constraint, vocabulary)
    assert renewed is not automaton
    assert compile_cached(constraint, vocabulary)[1] is renewed
    assert automaton.accepts(last)


def test_a_state_that_was_never_given_out_is_refused() -> None:
    automaton = constrained.compile(json_schema({"type": "object"}), small_bpe_vocabulary())
    state = automaton.next(automaton.start, automaton.vocabulary.ids_by_bytes[b"{"])
    automaton.fill_mask(state, automaton.new_mask())
    with pytest.raises(IndexError):
        automaton.fill_mask(10**9, np.zeros_like(automaton.new_mask()))
