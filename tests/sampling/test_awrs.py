"""Adaptive weighted rejection: the token of local masking, found with a few questions, and a weight that is right on average."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.errors import InvalidArgument
from constrained.sampling import AWRS, CandidateList, Draw, Local, LogitsWarper, PhiloxRandomness, Position
from constrained.spec.noise import GumbelNoise
from constrained.testing import ScriptedModel
from tests.sampling.counted_candidates import Asked
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton
from tests.support.sampler_distributions import (
    check_proper_weighting,
    enumerate_draws,
    sequence_distribution,
    token_distribution,
)

SAMPLED = LogitsWarper(1.0)
SUBSETS = [list(s) for n in range(1, 5) for s in itertools.combinations(range(4), n)]
VARIANTS = [
    AWRS(checks=checks, patience=patience, when_exhausted=exhausted, cached=cached)
    for checks in (1, 3, 9)
    for patience in (None, 1, 2)
    for exhausted in ("mask", "drop")
    for cached in (False, True)
    if not cached or (checks, patience) == (3, 2)
]


def logits_of(seed: int, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=4) * spread


# ---------------------------------------------------------------- part 1 of the battery: one token, exactly


@pytest.mark.parametrize("sampler", VARIANTS, ids=str)
def test_every_variant_is_properly_weighted_for_every_token(sampler):
    for allowed in SUBSETS:
        for costly in {False, sampler.patience is None}:
            check_proper_weighting(
                sampler,
                logits_of(len(allowed)),
                np.array(allowed),
                candidates=lambda ids=allowed, costly=costly: Asked(ids, costly=costly),
            )


@given(
    st.lists(st.floats(-30, 5), min_size=2, max_size=5),
    st.data(),
    st.sampled_from(VARIANTS),
    st.sampled_from([0.3, 1.0, 2.0]),
)
def test_any_row_and_any_constraint_is_properly_weighted(logits, data, sampler, temperature):
    allowed = data.draw(st.sets(st.integers(0, len(logits) - 1), min_size=1).map(sorted))
    check_proper_weighting(
        sampler,
        np.array(logits),
        np.array(allowed),
        temperature,
        candidates=lambda: Asked(allowed),
    )


@pytest.mark.parametrize("sampler", [AWRS(cached=False), AWRS(checks=1, patience=2, cached=False)], ids=str)
def test_the_token_follows_the_local_distribution_and_the_mean_weight_does_not_depend_on_it(sampler):
    logits, allowed = logits_of(0), [1, 3]
    p = np.exp(logits) / np.exp(logits).sum()
    z = p[allowed].sum()
    for token, (chance, weighted) in token_distribution(
        sampler, logits, lambda: Asked(allowed), SAMPLED
    ).items():
        assert chance == pytest.approx(p[token] / z, abs=1e-12)
        assert weighted / chance == pytest.approx(z, abs=1e-12)


def test_weights_and_bounds_are_probabilities_around_the_mass():
    for sampler, allowed, seed in itertools.product(VARIANTS, SUBSETS, range(1)):
        logits = logits_of(seed)
        p = np.exp(logits) / np.exp(logits).sum()
        z = p[allowed].sum()
        for chance, draw in enumerate_draws(sampler, logits, lambda ids=allowed: Asked(ids), SAMPLED):
            assert chance > 0
            assert 0.0 <= math.exp(draw.log_weight) <= 1.0
            low, high = draw.bounds
            assert low - 1e-12 <= z <= high + 1e-12


def test_more_estimates_make_a_steadier_weight():
    p = np.array([0.9, 0.06, 0.03, 0.01])
    spread = {}
    for checks in (1, 3):
        sampler = AWRS(checks=checks, cached=False)
        found = list(enumerate_draws(sampler, np.log(p), lambda: Asked([0, 2]), SAMPLED))
        second = math.fsum(chance * math.exp(2 * draw.log_weight) for chance, draw in found)
        spread[checks] = math.sqrt(max(second - 0.93**2, 0.0)) / 0.93
    assert spread[1] == pytest.approx(0.067, abs=1e-3)
    assert spread[3] < 0.6 * spread[1]


def test_the_expected_number_of_questions_is_the_papers_formula():
    logits, allowed = logits_of(4), [1, 2]
    p = np.exp(logits) / np.exp(logits).sum()
    z = p[allowed].sum()
    wanted = 1 + sum(p[y] / (p[y] + z) for y in range(4) if y not in allowed)
    # Before the draw as the formula says, and one more for the weight: with two valid tokens one is always left.
    sampler = AWRS(checks=1, cached=False)
    found = enumerate_draws(sampler, logits, lambda: Asked(allowed), SAMPLED)
    assert math.fsum(chance * draw.checks for chance, draw in found) == pytest.approx(wanted + 1, abs=1e-12)


# ---------------------------------------------------------------- negative controls


class FirstEstimate(AWRS):
    """Uses e_tau, the estimate of the draw itself, in place of the one after it."""

    def propose(self, position: Position) -> Draw:
        seen, mass = [], 0.0
        for token in position.order(position.log_probs, np.arange(len(position.log_probs))):
            rest = np.exp(position.log_probs)
            rest[seen] = 0.0
            if position.candidates.permits(token):
                return Draw(token, float(position.log_probs[token]), math.log(mass + rest.sum()))
            seen.append(token)
        raise AssertionError


class Unweighted(AWRS):
    def propose(self, position: Position) -> Draw:
        drawn = AWRS.propose(self, position)
        return Draw(drawn.token, drawn.logprob, 0.0)


class RedrawsButKeepsTheWeight(AWRS):
    """After a fruitless patience, draws from the mask with the weight that a hit would have had."""

    def propose(self, position: Position) -> Draw:
        drawn = AWRS(patience=1, when_exhausted="drop", cached=False).propose(position)
        if drawn.token is not None:
            return drawn
        again = AWRS.propose(
            self, Position(position.logits, CandidateList(position.allowed), position.randomness, SAMPLED)
        )
        return Draw(again.token, again.logprob, 0.0)


@pytest.mark.parametrize("wrong", [FirstEstimate(), Unweighted(), RedrawsButKeepsTheWeight()], ids=repr)
def test_wrong_weights_are_found_out(wrong):
    with pytest.raises(AssertionError, match="token"):
        check_proper_weighting(wrong, logits_of(1), np.array([0, 2]), candidates=lambda: Asked([0, 2]))


# ---------------------------------------------------------------- how many questions, and which


def test_the_token_is_the_one_that_local_masking_draws():
    random = np.random.default_rng(0)
    for trial in range(60):
        logits = random.normal(size=300) * 3
        allowed = np.flatnonzero(random.random(300) < random.choice([0.01, 0.3, 0.95]))
        if not len(allowed):
            continue
        for warp in (SAMPLED, LogitsWarper(0.5), LogitsWarper()):
            tokens = {
                sampler.propose(Position(logits, made, PhiloxRandomness(trial), warp, 7)).token
                for sampler in (Local(), AWRS(), AWRS(cached=False), AWRS(checks=1, patience=3))
                for made in (CandidateList(allowed), Asked(allowed), Asked(allowed, costly=True))
            }
            assert len(tokens) == 1


def test_a_row_that_is_known_costs_nothing_and_gives_the_exact_weight():
    logits = logits_of(2)
    p = np.exp(logits) / np.exp(logits).sum()
    drawn = AWRS().propose(Position(logits, CandidateList([1, 2]), PhiloxRandomness(0), SAMPLED))
    assert drawn.checks == 1
    assert drawn.log_weight == pytest.approx(math.log(p[1] + p[2]), abs=1e-12)


def test_patience_ends_with_one_mask_and_expensive_masks_are_never_computed():
    logits = np.zeros(500)
    logits[400] = -40.0  # allowed, and visited last
    cheap, dear = Asked([400]), Asked([400], costly=True)
    assert AWRS().propose(Position(logits, cheap, PhiloxRandomness(0), SAMPLED)).token == 400
    assert (cheap.checks, cheap.rows) == (33, 1)
    drawn = AWRS().propose(Position(logits, dear, PhiloxRandomness(0), SAMPLED))
    assert (drawn.token, dear.checks, dear.rows) == (400, 500, 0)
    # Every other token was visited, so the weight is exact, however small: nothing was subtracted from 1.
    assert drawn.log_weight == pytest.approx(-40.0 - math.log(499), rel=1e-9)


@pytest.mark.parametrize("bad", [{"checks": 0}, {"checks": 1.5}, {"patience": 0}, {"when_exhausted": "stop"}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(InvalidArgument, match="pass"):
        AWRS(**bad)


def test_truncations_are_refused_and_say_where_they_work():
    with pytest.raises(InvalidArgument, match="sampler='local'"):
        constrained.Generator(EnumerableModel(), b_or_c(), sampler="awrs")("", temperature=1.0, top_k=3)


def b_or_c():
    return constrained.regex("a?(b|c)")


# ---------------------------------------------------------------- whole texts

LANGUAGE = {b"", b"ab", b"abc", b"abca", b"ba", b"bbbb", b"cab", b"ccc", b"cccc"}


@pytest.mark.parametrize("sampler", [AWRS(checks=1, cached=False), AWRS(patience=1, cached=False)], ids=str)
def test_completions_follow_the_local_distribution_and_weights_measure_the_models(sampler):
    model = EnumerableModel(seed=1)
    model_distributions = model.distributions(LANGUAGE)
    drawn = sequence_distribution(
        model, FiniteAutomaton(LANGUAGE, model.vocabulary), sampler, SAMPLED, model.depth
    )
    assert set(drawn) == LANGUAGE
    for text, (chance, weighted) in drawn.items():
        assert chance == pytest.approx(model_distributions.local[text], abs=1e-12)
        assert weighted == pytest.approx(model_distributions.model[text], abs=1e-12)


def test_dropped_texts_carry_the_missing_weight():
    model = EnumerableModel(seed=1)
    model_distributions = model.distributions(LANGUAGE)
    sampler = AWRS(patience=1, when_exhausted="drop", cached=False)
    drawn = sequence_distribution(
        model, FiniteAutomaton(LANGUAGE, model.vocabulary), sampler, SAMPLED, model.depth
    )
    assert sum(chance for chance, _ in drawn.values()) < 0.9
    for text, (_, weighted) in drawn.items():
        assert weighted == pytest.approx(model_distributions.model[text], abs=1e-12)


def test_samples_have_a_distribution_weights_and_the_evidence():
    model = EnumerableModel(seed=1)
    model_distributions = model.distributions(LANGUAGE)
    gen = constrained.Generator(model, FiniteAutomaton(LANGUAGE, model.vocabulary), sampler="awrs")
    drawn = gen.sample("", 1000, temperature=1.0, seed=3)
    assert (drawn.distribution, len(drawn), drawn.attempts, drawn.accepted) == ("local", 1000, 1000, 1000)
    z = (math.exp(drawn.log_evidence) - model_distributions.mass) / (
        model_distributions.mass * drawn.log_evidence_error
    )
    assert abs(z) < 4.5
    distance = (
        sum(abs(drawn.posterior.get(t.decode(), 0) - p) for t, p in model_distributions.conditional.items())
        / 2
    )
    unweighted = (
        sum(abs(model_distributions.local[t] - p) for t, p in model_distributions.conditional.items()) / 2
    )
    assert distance < unweighted / 3
    assert 0 < drawn.ess < 1000
    assert drawn.checks_per_token > 1
    # Equal prefixes are read once: no more rows than prefixes, for any number of completions.
    assert drawn.forwards <= 1 + 3 + 9 + 27
    assert drawn[0].distribution == "local"
    assert drawn[0].stats.seed == 3


def test_greedy_awrs_equals_greedy_masking():
    model = EnumerableModel(seed=2)
    automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)
    outs = [constrained.Generator(model, automaton, sampler=name)("") for name in ("local", "awrs")]
    assert outs[0].text == outs[1].text
    assert [out.distribution for out in outs] == ["greedy", "greedy"]


def test_the_same_text_as_local_over_a_real_vocabulary_with_fewer_questions_than_tokens():
    from tests.support.finite import byte_vocabulary

    vocabulary = byte_vocabulary("ab", "abc", "12", '{"')
    model = ScriptedModel(vocabulary, "ab12ab", margin=4.0)
    constraint = constrained.regex("[ab]{2}[0-9]{2}[a-z]{2}")
    settings = {"temperature": 1.0, "seed": 1}
    local = constrained.Generator(model, constraint)("x", **settings)
    awrs = constrained.Generator(model, constraint, sampler=AWRS(cached=False, patience=10**6))(
        "x", **settings
    )
    assert awrs.tokens == local.tokens
    assert awrs.logprob == pytest.approx(local.logprob, abs=1e-9)
    assert awrs.stats.checks < len(awrs.tokens) * vocabulary.size / 4


# ---------------------------------------------------------------- numerics


@pytest.mark.parametrize("mass", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("sampler", [AWRS(cached=False), AWRS(checks=1, patience=4, cached=False)], ids=str)
def test_a_tiny_mass_is_weighed_exactly_on_average(mass, sampler):
    logits = np.log([(1 - mass) * 0.7, (1 - mass) * 0.3, mass * 0.75, mass * 0.25])
    for candidates in (lambda: Asked([2, 3]), lambda: Asked([2, 3], costly=True)):
        mean_distribution = token_distribution(sampler, logits, candidates, SAMPLED)
        for token, share in ((2, 0.75), (3, 0.25)):
            assert mean_distribution[token][0] == pytest.approx(share, rel=1e-9)
            assert mean_distribution[token][1] == pytest.approx(mass * share, rel=1e-9)


def test_a_mass_below_what_floats_hold_is_still_weighed():
    logits = np.array([0.0, 1.0, -2000.0])
    drawn = AWRS(cached=False).propose(
        Position(logits, Asked([2], costly=True), PhiloxRandomness(0), SAMPLED)
    )
    assert drawn.token == 2
    assert drawn.log_weight == pytest.approx(-2000 - math.log(1 + math.e), rel=1e-12)


@pytest.mark.parametrize("purpose", [0, 3])
def test_noise_that_is_not_computed_would_not_have_mattered(purpose):
    random = np.random.default_rng(purpose)
    for place in range(30):
        scores = random.normal(size=9000) * random.choice([0.1, 3.0, 20.0])
        scores[random.random(9000) < 0.2] = -np.inf
        ids = np.sort(random.choice(20_000, 9000, replace=False))
        keys = scores + GumbelNoise(4, 0, purpose).gumbel(place, ids)
        assert PhiloxRandomness(4).pick(scores, ids, place, purpose) == np.argmax(keys)
        if purpose == 0:
            order = itertools.islice(PhiloxRandomness(4).order(scores, ids, place), 400)
            assert list(order) == np.argsort(-keys, kind="stable")[:400].tolist()


@pytest.mark.parametrize("draws", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_hopeless_tokens_are_never_drawn_from_a_large_vocabulary(draws):
    size = 131_072
    logits = np.full(size, math.log(1e-9 / size))
    likely = np.random.default_rng(0).choice(size, 40, replace=False)
    logits[likely] = math.log(1 / 40)
    allowed = np.sort(np.concatenate([likely[:20], np.setdiff1d(np.arange(0, size, 2), likely)[:5000]]))
    for place in range(draws):
        candidates = Asked(allowed)
        drawn = AWRS().propose(Position(logits, candidates, PhiloxRandomness(9), SAMPLED, place))
        assert drawn.token in likely[:20]
        assert candidates.checks < 40
