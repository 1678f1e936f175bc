"""What is remembered has a limit; what was forgotten is computed again, and nobody can tell from the answers."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import constrained
from constrained.automaton import DEAD, TokenAutomaton, compile
from constrained.constraint import lark
from constrained.vocabulary import Vocabulary
from tests.support.finite import byte_vocabulary
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

MIB = 1 << 20
TEXT = {"type": "string", "pattern": "^([a-z]+, )*[a-z]{1,9}[.!?]$", "maxLength": 400}


def vocabulary(memory_limit: int, shards: int = 1) -> Vocabulary:
    small = small_bpe_vocabulary()
    return Vocabulary.from_bytes(list(small.tokens), small.eos_ids, memory_limit=memory_limit, shards=shards)


def random_schema(rng: random.Random) -> dict[str, object]:
    def name() -> str:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9)))

    kinds: list[dict[str, object]] = [
        {"enum": [name() for _ in range(5)]},
        {"type": "string", "pattern": f"^{name()}[0-9]{{1,{rng.randint(2, 30)}}}({name()}|{name()})$"},
        {"type": "integer", "minimum": rng.randint(0, 10**6), "maximum": rng.randint(10**7, 10**9)},
        {"type": "array", "items": {"type": "string", "minLength": rng.randint(1, 99)}},
    ]
    return {
        "type": "object",
        "properties": {name(): rng.choice(kinds) for _ in range(6)},
        "additionalProperties": False,
        "minProperties": 3,
    }


def many_masks(first: int) -> dict[str, object]:
    """Nearly every state has a mask of its own."""
    return {"enum": [f"{first + i:03d}{i}" for i in range(999)]}


def wander(automaton: TokenAutomaton, rng: random.Random, steps: int) -> list[int]:
    """States of a random text."""
    states = [automaton.start]
    row = automaton.new_mask()
    for _ in range(steps):
        automaton.fill_mask(states[-1], row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        allowed = [
            token for token in np.flatnonzero(bits).tolist() if token not in automaton.vocabulary.eos_ids
        ]
        if not allowed:
            break
        states.append(automaton.next(states[-1], rng.choice(allowed)))
    return states


def masks(automaton: TokenAutomaton, states: list[int]) -> np.ndarray:
    rows = automaton.new_mask(len(states))
    automaton.fill_masks(states, rows)
    return rows


def shared_bytes(shared: Vocabulary) -> int:
    size = shared.core.memory
    return sum(size[name] for name in ("residual_bytes", "lexicon_bytes", "mask_store_bytes"))


def stream(shared: Vocabulary, schemas: int, every: int = 1) -> list[int]:
    """Schemas seen once, one after another, with some steps of each: bytes taken after each."""
    rng = random.Random(7)
    taken = []
    for _ in range(schemas):
        wander(constrained.compile(random_schema(rng), shared), rng, 12)
        taken.append(shared_bytes(shared))
    return taken


def test_a_server_that_never_sees_a_schema_twice_stays_under_its_limit():
    limit = MIB
    bounded, unbounded = vocabulary(limit), vocabulary(1 << 40)
    assert max(stream(bounded, 150)) < limit
    grown = stream(unbounded, 150)
    assert grown[-1] > 1.5 * limit, "the limit was never put to the test"
    assert grown == sorted(grown)


@pytest.mark.slow
def test_thousands_of_schemas_stay_under_the_limit():
    limit = 8 * MIB
    assert max(stream(vocabulary(limit), 2000)) < limit


def test_shards_that_no_automaton_needs_any_more_are_gone():
    shared = vocabulary(MIB, shards=2)
    rng = random.Random(1)
    kept = [constrained.compile(random_schema(rng), shared) for _ in range(40)]
    before = [masks(automaton, [automaton.start]) for automaton in kept]
    assert shared.core.memory["shards"] > 2
    for automaton, mask in zip(kept, before, strict=True):
        assert np.array_equal(masks(automaton, [automaton.start]), mask)
    del kept, automaton
    assert shared.core.memory["shards"] == 2


def test_an_automaton_forgets_what_it_can_compute_again_and_keeps_its_states():
    free = constrained.compile(TEXT, vocabulary(1 << 40))
    tight = constrained.compile(TEXT, vocabulary(0), memory_limit=32 << 10)
    for seed in range(30):
        path = wander(free, random.Random(seed), 25)
        same = wander(tight, random.Random(seed), 25)
        assert np.array_equal(masks(tight, same), masks(free, path))
        assert [tight.shortest_completion(s) for s in same] == [free.shortest_completion(s) for s in path]
        again = wander(tight, random.Random(seed), 25)
        assert np.array_equal(masks(tight, again), masks(tight, same)), "also where it has new numbers"
    size = tight.memory
    assert size["memo_bytes"] < 64 << 10
    assert free.memory["memo_bytes"] > 2 * size["memo_bytes"], "the limit was never put to the test"


def test_an_evicted_mask_gets_a_new_id():
    shared = vocabulary(0)  # 64 rows are kept whatever the limit
    automaton = constrained.compile(many_masks(0), shared)
    first = automaton.mask_id(automaton.start)
    row = automaton.new_mask(1)
    assert shared.masks.copy([first], row)
    expected = row.copy()
    for seed in range(400):
        other = constrained.compile(many_masks(1000 * (seed % 20)), shared)
        other.mask_ids(wander(other, random.Random(seed), 6))
        if shared.masks.first > first:
            break
    assert shared.masks.first > first
    assert not shared.masks.copy([first], row)
    again = automaton.mask_id(automaton.start)
    assert again >= shared.masks.first
    assert shared.masks.copy([again], row)
    assert np.array_equal(row, expected)
    with pytest.raises(IndexError):
        shared.masks.copy([shared.masks.end], row)
    assert shared.core.memory["masks"] == shared.masks.end - shared.masks.first


@pytest.mark.ci
@pytest.mark.parametrize("shards", [1, 3])
def test_threads_see_the_right_masks_while_everything_is_being_forgotten(shards):
    schemas = [random_schema(random.Random(0)), *(many_masks(first) for first in (0, 1000, 2000))]
    expected = {}
    for number, schema in enumerate(schemas):
        alone = constrained.compile(schema, vocabulary(1 << 40))
        for seed in range(50):
            expected[number, seed] = masks(alone, wander(alone, random.Random(seed), 20))
    shared = vocabulary(0, shards)
    automata = [constrained.compile(schema, shared, memory_limit=0) for schema in schemas]

    def run(thread: int) -> None:
        for number, seed in random.Random(thread).sample(list(expected), 80):
            path = wander(automata[number], random.Random(seed), 20)
            assert np.array_equal(masks(automata[number], path), expected[number, seed])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(8)))
    assert shared.masks.first > 0, "nothing was dropped"


def test_alternatives_that_track_a_key_cost_memory_in_proportion_to_their_number() -> None:
    """Each of 81 alternatives tracks the bytes of keys that it does not declare."""
    one_of = [{"oneOf": [{"required": [f"{name}{i}"]} for name in "abc"]} for i in range(4)]
    automaton = constrained.compile(
        constrained.json_schema({"type": "object", "allOf": one_of}, property_order="any"),
        vocabulary(64 * MIB),
    )
    token = {text: i for i, text in enumerate(automaton.vocabulary.tokens)}
    state, row = automaton.start, automaton.new_mask()
    for step, byte in enumerate(b'{"a key that nobody declared": 1, "another"'):
        automaton.fill_mask_within(state, row, 70 - step)
        state = automaton.next(state, token[bytes([byte])])
    assert automaton.memory["bytes"] < 40 * MIB  # 10; with a set for each number of alternatives 356


@pytest.mark.slow
def test_an_automaton_behind_a_lexer_that_has_grown_is_left_to_its_texts() -> None:
    """States that were given out are never dropped: each bracket of this text makes one."""
    automaton = compile(lark('start: "(" start ")" | "[" start "]" | /[a-z]+/'), byte_vocabulary())
    draw = random.Random(1)
    state = automaton.start
    for _ in range(100):
        state = automaton.next(state, ord(draw.choice("([")))
    assert not automaton.outgrown
    while not automaton.outgrown:
        state = automaton.next(state, ord(draw.choice("([")))
        assert state != DEAD
        assert automaton.memory["bytes"] - automaton.memory["memo_bytes"] < 96 * MIB
    assert automaton.next(automaton.start, ord("(")) != DEAD
