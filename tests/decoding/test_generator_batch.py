"""Many states in one call: one automaton or several, states that are new and states that are not, threads, forks."""

from __future__ import annotations

import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import constrained
from constrained.automaton import TokenAutomaton
from constrained.vocabulary import Vocabulary
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

WORDS = ["a", "beautiful", "cat", "dozen", "elephants", "\u00fcber", "\u20ac20", '"quoted"']


def vocabulary(shards: int = 1) -> Vocabulary:
    """One of its own, so that nothing in it was computed before."""
    small = small_bpe_vocabulary()
    return Vocabulary.from_bytes(list(small.tokens), small.eos_ids, shards=shards)


def schema(number: int) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            f"name{number}": {"type": "string", "maxLength": 5 + number},
            "kind": {"enum": WORDS[: 1 + number % len(WORDS)]},
            "count": {"type": "integer", "minimum": number},
        },
        "required": ["kind", "count"],
    }


def text(number: int) -> bytes:
    return b'{"name%d": "abc", "kind": "a", "count": 1%d}' % (number, number)


def states_of(automaton: TokenAutomaton, number: int) -> list[int]:
    tokens = small_bpe_vocabulary().encode(text(number))
    states = automaton.walk(automaton.start, tokens)
    assert len(states) == len(tokens)
    return [automaton.start, *states]


def singly(automata: list[TokenAutomaton], states: list[int]) -> np.ndarray:
    rows = automata[0].new_mask(len(states))
    for automaton, state, row in zip(automata, states, rows, strict=True):
        automaton.fill_mask(state, row)
    return rows


def cold_batch(shared: Vocabulary, count: int = 12) -> tuple[list[TokenAutomaton], list[int]]:
    """States of several automata in random order, some of them twice; no mask was computed yet."""
    pairs = []
    for number in range(count):
        automaton = constrained.compile(schema(number), shared)
        pairs += [(automaton, state) for state in states_of(automaton, number)]
    pairs += pairs[::3]
    random.Random(0).shuffle(pairs)
    return [automaton for automaton, _ in pairs], [state for _, state in pairs]


@pytest.mark.parametrize("shards", [1, 3])
def test_states_of_several_automata_are_answered_in_one_call(shards):
    automata, states = cold_batch(vocabulary(shards))
    together = automata[0].new_mask(len(states))
    constrained.fill_masks(automata, states, together)
    assert np.array_equal(together, singly(*cold_batch(vocabulary())))
    again = np.zeros_like(together)
    constrained.fill_masks(automata, states, again)
    assert np.array_equal(again, together)


@pytest.mark.parametrize("shards", [1, 3])
def test_rows_of_several_automata_have_ids_in_one_call(shards):
    shared = vocabulary(shards)
    automata, states = cold_batch(shared)
    ids = constrained.mask_ids(automata, states)
    assert ids == [automaton.mask_id(state) for automaton, state in zip(automata, states, strict=True)]
    rows = automata[0].new_mask(len(ids))
    assert shared.masks.copy(ids, rows)
    assert np.array_equal(rows, singly(automata, states))
    assert len({row.tobytes() for row in rows}) == len(set(ids))


def test_an_empty_batch_is_answered():
    automaton = constrained.compile(schema(0), vocabulary())
    automaton.fill_masks([], automaton.new_mask(0))
    assert automaton.mask_ids([]) == []
    constrained.fill_masks([], [], automaton.new_mask(0))


def test_wrong_batches_are_errors():
    one, other = (constrained.compile(schema(0), vocabulary()) for _ in range(2))
    rows = one.new_mask(2)
    with pytest.raises(ValueError, match="different vocabularies"):
        constrained.fill_masks([one, other], [one.start, other.start], rows)
    with pytest.raises(ValueError, match="one automaton for each state"):
        constrained.fill_masks([one], [one.start] * 2, rows)
    with pytest.raises(ValueError, match="one mask for each state"):
        one.fill_masks([one.start] * 3, rows)
    with pytest.raises(ValueError, match="wrong length"):
        one.fill_masks([one.start], np.zeros((1, 1), dtype=np.int32))
    with pytest.raises(IndexError):
        one.fill_masks([one.start, 10**6], rows)
    with pytest.raises(IndexError):
        one.mask_ids([10**6])


@pytest.mark.parametrize("shards", [1, 4])
def test_threads_that_compile_walk_and_fill_agree_with_one_thread(shards):
    """Every thread does everything, in an order of its own, over one vocabulary."""
    count = 10
    expected = {}
    for number in range(count):
        automaton = constrained.compile(schema(number), vocabulary())
        states = states_of(automaton, number)
        expected[number] = singly([automaton] * len(states), states)
    shared = vocabulary(shards)
    kept = [constrained.compile(schema(number), shared) for number in range(count)]

    def run(seed: int) -> int:
        rng = random.Random(seed)
        compared = 0
        for _ in range(2):
            numbers = rng.sample(range(count), count)
            own = {
                n: kept[n] if rng.random() < 0.7 else constrained.compile(schema(n), shared) for n in numbers
            }
            places = [(n, i, state) for n in numbers for i, state in enumerate(states_of(own[n], n))]
            rng.shuffle(places)
            for begin in range(0, len(places), 16):
                some = places[begin : begin + 16]
                rows = kept[0].new_mask(len(some))
                constrained.fill_masks([own[n] for n, _, _ in some], [state for *_, state in some], rows)
                for row, (n, i, _) in zip(rows, some, strict=True):
                    assert np.array_equal(row, expected[n][i])
                    compared += 1
        return compared

    with ThreadPoolExecutor(8) as threads:
        compared = sum(threads.map(run, range(8)))
    assert compared == 8 * 2 * sum(map(len, expected.values()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python warns of forks beside threads")
def test_a_forked_process_has_threads_of_its_own():
    automata, states = cold_batch(vocabulary(shards=2))
    constrained.mask_ids(automata, states)  # starts the threads of this process
    automata, states = cold_batch(vocabulary(shards=2))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            rows = automata[0].new_mask(len(states))
            constrained.fill_masks(automata, states, rows)
            status = 0 if np.array_equal(rows, singly(automata, states)) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_to_fork_a_text_is_to_copy_a_number_and_to_roll_back_is_to_drop_some():
    """Branches of one text do not know of each other, and a text that was rolled back goes on as if never left."""
    automaton = constrained.compile(schema(3), vocabulary())
    tokens = small_bpe_vocabulary().encode(text(3))
    path = states_of(automaton, 3)
    branched = 0
    for at in range(len(tokens)):
        branch = path[: at + 1]  # the fork
        mask = singly([automaton], [branch[-1]])
        others = [t for t in range(automaton.vocabulary.size) if automaton.next(branch[-1], t)]
        for token in (others[0], others[-1]):
            branch.append(automaton.next(path[at], token))
            singly([automaton], [branch[-1]])
            branched += token != tokens[at]
        del branch[at + 1 :]  # rolled back
        assert branch == path[: at + 1]
        assert np.array_equal(singly([automaton], [branch[-1]]), mask)
        assert automaton.walk(branch[-1], tokens[at:]) == path[at + 1 :]
    assert branched > 20
