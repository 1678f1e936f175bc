"""The `Automaton` protocol, by an automaton that is written in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import constrained
from constrained.automaton import (
    DEAD,
    NO_LIMIT,
    Automaton,
    LexerAutomaton,
    PredicateAutomaton,
    TokenAutomaton,
    compile,
    fill_masks,
    mask_ids,
)
from constrained.automaton.bitmask import allows, pack_ids, unpack_bits, unpack_ids, word_count
from constrained.errors import InvalidArgument, ModelMismatch, UnsupportedConstraint
from constrained.sampling import SAMPLERS
from tests.support.enumerable_model import EnumerableModel

PATTERN = "b*(ab*ab*)*"
ENDED = 3


class EvenConstraint(constrained.Constraint):
    """Its values are pairs: the text, and how many letters "a" it has."""

    key = "even number of a"

    def parse(self, text):
        return text, text.count("a")

    def render(self):
        return "an even number of a"


class EvenAutomaton(Automaton):
    """Texts of the letters a and b with an even number of a: the language of `PATTERN`."""

    start = 1

    def __init__(self, vocabulary, constraint=None):
        self.vocabulary = vocabulary
        self.constraint = constraint

    def next(self, state, token):
        if token in self.vocabulary.eos_ids:
            return ENDED if self.accepts(state) else DEAD
        if state not in (1, 2):
            return DEAD
        return {b"a": 3 - state, b"b": state}.get(self.vocabulary.tokens[token], DEAD)

    def accepts(self, state):
        return state in (1, ENDED)

    def shortest_completion(self, state):
        return int(state == 2)


class ExpensiveEvenAutomaton(EvenAutomaton):
    """An automaton of which no mask is computed."""

    expensive_membership = True

    def fill_mask_within(self, state, mask, budget):
        raise AssertionError("a mask was computed")

    def only_eos(self, state, budget):
        return state == ENDED or (self.accepts(state) and budget < 1)


@pytest.fixture(scope="module")
def model():
    return EnumerableModel(seed=3, depth=5)


@pytest.mark.parametrize("kind", ["own", "token", "lexer", "predicate"])
def test_every_automaton_follows_its_single_steps(model, kind):
    vocabulary = model.vocabulary
    even = constrained.predicate(
        prefix_ok=lambda text: set(text) <= {"a", "b"}, complete_ok=lambda t: not t.count("a") % 2
    )
    automaton = {
        "own": lambda: EvenAutomaton(vocabulary),
        "token": lambda: compile(constrained.regex(PATTERN), vocabulary),
        "lexer": lambda: compile(constrained.lark('start: B* (A B* A B*)*\nA: "a"\nB: "b"'), vocabulary),
        "predicate": lambda: compile(constrained.regex("[ab]*") & even, vocabulary),
    }[kind]()
    assert isinstance(automaton, Automaton)
    assert isinstance(
        automaton,
        {
            "own": EvenAutomaton,
            "token": TokenAutomaton,
            "lexer": LexerAutomaton,
            "predicate": PredicateAutomaton,
        }[kind],
    )
    assert automaton.vocabulary == vocabulary
    eos = set(vocabulary.eos_ids)
    for length in range(4):
        for tokens in itertools.product(range(vocabulary.size), repeat=length):
            states = automaton.walk(automaton.start, tokens)
            text = vocabulary.decode(tokens)
            if eos & set(tokens) or b"c" in text:
                continue
            assert len(states) == length
            state = [automaton.start, *states][-1]
            even_so_far = text.count(b"a") % 2 == 0
            assert automaton.accepts(state) == even_so_far
            if kind != "predicate":  # a predicate has a lower bound, and dead ends
                assert automaton.shortest_completion(state) == (not even_so_far)
            for budget in (0, 1, 2, NO_LIMIT):
                mask = automaton.new_mask()
                automaton.fill_mask_within(state, mask, budget)
                ids = set(unpack_ids(mask).tolist())
                assert ids - eos == {
                    token
                    for token in range(vocabulary.size)
                    if budget and token not in eos and automaton.next_within(state, token, budget) != DEAD
                }
                assert ids & eos == (eos if even_so_far else set())
                assert automaton.only_eos(state, budget) == (even_so_far and ids <= eos)
            full = automaton.new_mask(1)
            automaton.fill_masks([state], full)
            fill_masks([automaton], [state], again := automaton.new_mask(1))
            assert (full == again).all()
            assert (full[0] == mask).all()
            assert automaton.forced(state) == b""


def test_defaults_say_what_an_automaton_does_not_have(model):
    automaton = EvenAutomaton(model.vocabulary)
    assert automaton.relaxed_automaton is automaton
    assert automaton.automaton_table is None
    assert not automaton.has_mask(automaton.start)
    assert automaton.report == ()
    assert automaton.memory == {}
    for query in (
        lambda: automaton.mask_id(1),
        lambda: automaton.mask_ids([1]),
        lambda: mask_ids([automaton], [1]),
    ):
        with pytest.raises(UnsupportedConstraint, match="EvenAutomaton have no ids"):
            query()


def test_an_automaton_without_its_methods_cannot_be_made(model):
    class Half(Automaton):
        start = 1

        def next(self, state, token):
            return DEAD

    with pytest.raises(TypeError, match="accepts"):
        Half()


@pytest.mark.parametrize("sampler", sorted(set(SAMPLERS) - {"exact"}))  # its texts are too many to weigh
def test_every_sampler_draws_from_it_what_it_draws_from_a_compiled_one(model, sampler):
    own = constrained.Generator(
        model, EvenAutomaton(model.vocabulary, EvenConstraint()), sampler=sampler, speculation="auto"
    )
    compiled = constrained.Generator(model, constrained.regex(PATTERN), sampler=sampler)
    for seed in range(5):
        settings = {"max_tokens": 5, "temperature": 1.0, "seed": seed}
        one, other = own("", **settings), compiled("", **settings)
        assert one.text == other.text
        assert one.tokens == other.tokens
        assert one.value == (other.value, other.value.count("a"))
        assert one.text.count("a") % 2 == 0


@pytest.mark.parametrize("sampler", [None, "awrs", "rejection", "asap", "cars", "smc"])
def test_no_mask_is_computed_by_samplers_that_can_do_without(model, sampler):
    automaton = ExpensiveEvenAutomaton(model.vocabulary, EvenConstraint())
    generator = constrained.Generator(model, automaton, sampler=sampler, speculation="auto")
    if sampler is None:
        assert generator.sampler == SAMPLERS["awrs"]()
    for seed in range(3):
        text, count = generator("", max_tokens=5, temperature=1.0, seed=seed).value
        assert count % 2 == 0 == text.count("a") % 2
        assert set(text) <= {"a", "b"}


def test_it_needs_a_constraint_and_the_vocabulary_of_the_model(model):
    with pytest.raises(InvalidArgument, match="no constraint"):
        constrained.Generator(model, EvenAutomaton(model.vocabulary))
    other = EnumerableModel(letters=(b"a", b"b"))
    with pytest.raises(ModelMismatch):
        constrained.Generator(other, EvenAutomaton(model.vocabulary, EvenConstraint()))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
def test_bitmasks_and_ids(size):
    random = np.random.default_rng(size)
    for _ in range(20):
        ids = np.flatnonzero(random.integers(2, size=size))
        mask = pack_ids(ids, size)
        assert mask.dtype == np.int32
        assert mask.shape == (word_count(size),)
        assert unpack_ids(mask).tolist() == ids.tolist()
        assert [token for token in range(size) if mask[token // 32] >> (token % 32) & 1] == ids.tolist()
        assert [token for token in range(size) if allows(mask, token)] == ids.tolist()
        assert unpack_bits(np.stack([mask, ~mask])).sum(axis=1).tolist() == [
            len(ids),
            mask.size * 32 - len(ids),
        ]
