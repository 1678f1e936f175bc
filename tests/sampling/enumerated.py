"""Exact distributions of whole samplers on tiny models: every choice that the production code makes is enumerated."""

from __future__ import annotations

import math
from collections import defaultdict

from constrained.decoding.particle_batch import CachedParticleBatch
from constrained.decoding.sequence import DecodingParams
from constrained.sampling import LogitsWarper
from tests.support.enumerable_model import EnumerableModel
from tests.support.enumerated_choices import enumerate_outcomes
from tests.support.finite import FiniteAutomaton

LANGUAGE = {b"", b"ab", b"abc", b"abca", b"ba", b"bbbb", b"cab", b"ccc", b"cccc"}


class ExpensiveAutomaton(FiniteAutomaton):
    """A finite language whose membership queries are expensive, as a predicate's are."""

    expensive_membership = True


def pool_of(model, language, chance, *, costly=False, limit=None, certain_ends=False):
    """A pool whose attempts all use one chance."""
    make = ExpensiveAutomaton if costly else FiniteAutomaton
    rules = DecodingParams(make(language, model.vocabulary), LogitsWarper(1.0), certain_ends)
    return CachedParticleBatch(model, rules, [model.eos], limit or model.depth, lambda attempt: chance)


def distribution_of(play, model, language, *, costly=False):
    """Outcome -> probability, where `play` is given a pool and returns a hashable outcome."""
    distribution: dict[object, float] = defaultdict(float)
    for chance, outcome in enumerate_outcomes(
        lambda dice: play(pool_of(model, language, dice, costly=costly))
    ):
        distribution[outcome] += chance
    assert abs(math.fsum(distribution.values()) - 1.0) < 1e-9
    return dict(distribution)


def small(seed: int = 0, **settings) -> EnumerableModel:
    """A model of 13 texts."""
    return EnumerableModel(seed=seed, **{"letters": (b"a", b"b"), "depth": 2} | settings)


def distance(distribution, other) -> float:
    """Total variation."""
    return sum(abs(distribution.get(x, 0.0) - other.get(x, 0.0)) for x in {*distribution, *other}) / 2


def future(model, language, prefix):
    """Probability that the model's text is valid, given that it begins with these tokens: what theta bounds."""
    distributions = model.distributions(language)
    text = model.vocabulary.decode(prefix)
    p = 1.0
    for n in range(len(prefix)):
        p *= model.rows[tuple(prefix[:n])][prefix[n]]
    return math.fsum(q for w, q in distributions.model.items() if w in language and w.startswith(text)) / p
