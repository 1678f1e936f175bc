"""Masks on a device: what was sent stays right, and nothing is sent twice without need."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import constrained
from constrained import DeviceMaskCache
from constrained.errors import InvalidArgument, ModelMismatch
from tests.automaton.test_memory_limit import many_masks, random_schema, vocabulary, wander


def test_masks_come_from_the_device_and_are_sent_once():
    shared = vocabulary(1 << 30)
    automaton = constrained.compile(random_schema(random.Random(0)), shared)
    states = wander(automaton, random.Random(0), 30)
    mirror = DeviceMaskCache(shared, slots=64)
    rows = automaton.new_mask(len(states))
    automaton.fill_masks(states, rows)
    masks = mirror.masks(automaton, states)
    assert masks.dtype == torch.int32
    assert np.array_equal(masks.numpy(), rows)
    sent = mirror.sent
    assert sent == len({row.tobytes() for row in rows})
    assert torch.equal(mirror.masks(automaton, states), masks)
    assert mirror.sent == sent


def test_a_bit_is_where_kernels_look_for_it():
    shared = vocabulary(1 << 30)
    automaton = constrained.compile({"const": "x"}, shared)
    mask = DeviceMaskCache(shared).masks(automaton, [automaton.start])[0]
    allowed = {t for t in range(shared.size) if int(mask[t // 32]) >> (t % 32) & 1}
    assert allowed == {t for t in range(shared.size) if automaton.next(automaton.start, t)}


def test_masks_of_another_vocabulary_are_refused_even_of_an_equal_one():
    shared, equal = vocabulary(1 << 30), vocabulary(1 << 30)
    assert shared == equal
    mirror = DeviceMaskCache(shared)
    first, other = (constrained.compile({"const": "x"}, one) for one in (shared, equal))
    for automata, states in ((other, [other.start]), ([first, other], [first.start, other.start])):
        with pytest.raises(ModelMismatch, match=r"automaton\.vocabulary"):
            mirror.masks(automata, states)


def test_sequences_with_automata_of_their_own_share_a_mirror():
    shared = vocabulary(1 << 30)
    automata = [constrained.compile(random_schema(random.Random(seed)), shared) for seed in range(5)]
    states = [wander(automaton, random.Random(1), 9)[-1] for automaton in automata]
    masks = DeviceMaskCache(shared).masks(automata, states).numpy()
    for automaton, state, mask in zip(automata, states, masks, strict=True):
        row = automaton.new_mask()
        automaton.fill_mask(state, row)
        assert np.array_equal(mask, row)


def test_a_mirror_outlives_the_rows_it_shows_and_starts_again_when_it_is_full():
    shared = vocabulary(0)
    automata = [constrained.compile(many_masks(1000 * part), shared, memory_limit=0) for part in range(20)]
    mirror = DeviceMaskCache(shared, slots=20)
    for seed in range(600):
        automaton = automata[seed % len(automata)]
        states = wander(automaton, random.Random(seed), 6)
        rows = automaton.new_mask(len(states))
        masks = mirror.masks(automaton, states)
        automaton.fill_masks(states, rows)
        assert np.array_equal(masks.numpy(), rows)
    assert shared.masks.first > 0, "nothing was dropped"
    assert mirror.sent > 20, "it was never full"


def test_a_batch_that_does_not_fit_is_an_error():
    shared = vocabulary(1 << 30)
    automaton = constrained.compile(random_schema(random.Random(0)), shared)
    states = wander(automaton, random.Random(0), 30)
    mirror = DeviceMaskCache(shared, slots=2)
    with pytest.raises(InvalidArgument, match="do not fit in 2 slots"):
        mirror.masks(automaton, states)
    assert mirror.masks(automaton, states[:1]).shape == (1, shared.masks.words)
    with pytest.raises(InvalidArgument):
        DeviceMaskCache(shared, slots=0)
