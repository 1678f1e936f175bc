"""Local masking draws exactly Q = product of p f / Z, and reports how far that is from the model's distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from constrained.bench.fidelity.goodness_of_fit import g_test
from constrained.errors import InvalidArgument, ModelError
from constrained.sampling import (
    SAMPLERS,
    CandidateList,
    Local,
    LogitsWarper,
    PhiloxRandomness,
    Position,
    resolve_sampler,
)
from tests.support.enumerable_model import EnumerableModel
from tests.support.examples import examples
from tests.support.finite import FiniteAutomaton
from tests.support.sampler_distributions import (
    check_proper_weighting,
    sequence_distribution,
    token_distribution,
)

LOCAL = Local()


GREEDY = LogitsWarper()


def draw(logits, allowed, warp=GREEDY):
    return LOCAL.propose(Position(np.array(logits), CandidateList(allowed), PhiloxRandomness(0), warp))


def logs(*p: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array(p))


# ---------------------------------------------------------------- one token


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("allowed", [[0], [3], [0, 2], [1, 2, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_draw_is_properly_weighted(seed, allowed, temperature):
    logits = np.random.default_rng(seed).normal(size=4) * 3
    check_proper_weighting(LOCAL, logits, np.array(allowed), temperature)


def test_the_check_of_proper_weights_can_fail():
    class Unweighted(Local):
        def propose(self, position):
            drawn = super().propose(position)
            return type(drawn)(drawn.token, drawn.logprob, 0.0)

    with pytest.raises(AssertionError, match="token 0"):
        check_proper_weighting(Unweighted(), logs(0.5, 0.2, 0.2, 0.1), np.array([0, 1]))


def test_the_chance_of_a_draw_is_what_logprob_and_log_weight_say():
    logits = logs(0.4, 0.3, 0.2, 0.1)
    for warp in [
        LogitsWarper(0.7),
        LogitsWarper(1.0, top_k=2),
        LogitsWarper(1.3, top_p=0.6),
        LogitsWarper(1.0, min_p=0.4),
        LogitsWarper(1.0, 3, 0.9, 0.5),
    ]:
        distribution = token_distribution(LOCAL, logits, np.array([0, 1, 3]), warp)
        assert math.isclose(sum(chance for chance, _ in distribution.values()), 1.0, abs_tol=1e-12)
        p = np.exp(warp.scale(logits))
        p /= p.sum()
        for token, (chance, weighted) in distribution.items():
            assert weighted == pytest.approx(p[token], abs=1e-12)
            assert chance == pytest.approx(p[token] / p[sorted(distribution)].sum(), abs=1e-12)


def test_greedy_takes_the_most_likely_allowed_token_and_the_lowest_id_of_a_tie():
    assert draw([5.0, 1.0, 2.0, 2.0], [1, 2, 3]).token == 2
    drawn = draw(logs(0.5, 0.25, 0.125, 0.125), [1, 2])
    assert drawn.token == 1
    assert drawn.logprob == pytest.approx(math.log(0.25))
    assert drawn.log_weight == pytest.approx(math.log(0.375))


@pytest.mark.parametrize(
    ("warp", "kept"),
    [
        (LogitsWarper(1.0), {0, 1, 2, 4}),
        (LogitsWarper(1.0, top_k=1), {0}),
        (LogitsWarper(1.0, top_k=2), {0, 1}),  # 1 and 2 tie: the lower id stays
        (LogitsWarper(1.0, top_k=100), {0, 1, 2, 4}),
        (LogitsWarper(1.0, top_p=0.49), {0}),  # half of the allowed mass is token 0 alone
        (LogitsWarper(1.0, top_p=0.51), {0, 1}),
        (LogitsWarper(1.0, top_p=1.0), {0, 1, 2, 4}),
        (LogitsWarper(1.0, top_p=1e-9), {0}),
        (LogitsWarper(1.0, min_p=0.49), {0, 1, 2}),
        (LogitsWarper(1.0, min_p=1.0), {0}),
        (LogitsWarper(1.0, min_p=0.0), {0, 1, 2, 4}),
        (
            LogitsWarper(1.0, top_k=3, top_p=0.75),
            {0, 1},
        ),  # of the three, 0 and 1 have 3/4 after renormalising ...
        (LogitsWarper(1.0, top_p=0.76, min_p=0.6), {0}),
        (LogitsWarper(0.25, top_p=0.8), {0}),  # temperature first: it makes the row peaked
    ],
)
def test_truncations_apply_to_what_the_mask_left_in_the_documented_order(warp, kept):
    logits = logs(0.32, 0.16, 0.15999, 0.3, 0.00001, 0.05)  # tokens 3 and 5 are not allowed
    logits[2] = logits[1]
    assert set(token_distribution(LOCAL, logits, np.array([0, 1, 2, 4]), warp)) == kept


def test_a_truncation_never_leaves_nothing():
    assert draw([9.0, 0.0, 0.0], [1, 2], LogitsWarper(1.0, top_k=1)).token == 1


@pytest.mark.parametrize("mass", [1e-3, 1e-6, 1e-12])
def test_a_tiny_allowed_mass_is_weighed_exactly(mass):
    drawn = draw(logs(1.0 - mass, mass / 2, mass / 2), [1, 2], LogitsWarper(1.0))
    assert drawn.log_weight == pytest.approx(math.log(mass), rel=1e-9)
    assert drawn.logprob == pytest.approx(math.log(mass / 2), rel=1e-9)


def test_impossible_logits_are_the_models_fault_and_say_so():
    with pytest.raises(ModelError, match="not a distribution"):
        draw([0.0, math.nan, 0.0], [0])
    with pytest.raises(ModelError, match="not a distribution"):
        draw([-math.inf, -math.inf], [0])
    with pytest.raises(ModelError, match="probability 0 to every token"):
        draw([0.0, -math.inf], [1])


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": "hot"},
        {"temperature": True},
        {"temperature": 1.0, "top_k": 0},
        {"temperature": 1.0, "top_k": 1.5},
        {"temperature": 1.0, "top_p": 10**400},
        {"temperature": 10**400},
        {"temperature": 1.0, "top_p": 0.0},
        {"temperature": 1.0, "top_p": 1.1},
        {"temperature": 1.0, "min_p": -0.1},
        {"top_p": 0.9},
        {"temperature": 0, "top_k": 5},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(InvalidArgument, match=r"pass|effect"):
        LogitsWarper(**settings)


def test_samplers_are_chosen_by_name_from_one_table():
    assert resolve_sampler("local") == Local()
    assert resolve_sampler(LOCAL) is LOCAL
    assert all(isinstance(resolve_sampler(name), kind) for name, kind in SAMPLERS.items())
    with pytest.raises(InvalidArgument, match=r"use one of: .*local"):
        resolve_sampler("nucleus")
    assert [
        LOCAL.distribution(w) for w in (LogitsWarper(), LogitsWarper(0.5), LogitsWarper(0.5, top_k=3))
    ] == [
        "greedy",
        "local",
        "local-truncated",
    ]


# ---------------------------------------------------------------- whole texts

LANGUAGE = {b"", b"ab", b"abc", b"abca", b"ba", b"bbbb", b"cab", b"ccc", b"cccc"}


def texts_of(language, model):
    return FiniteAutomaton(language, model.vocabulary)


@settings(max_examples=examples(30))
@given(st.sets(st.text("abc", max_size=4).map(str.encode), min_size=1, max_size=12), st.integers(0, 2**32))
def test_any_language_is_drawn_by_its_local_distribution(language, seed):
    model = EnumerableModel(seed=seed, spread=0.3)
    distributions = model.distributions(language)
    assume(min(distributions.local.values()) > 0.0)  # a row of a peaked model can underflow
    drawn = sequence_distribution(model, texts_of(language, model), LOCAL, LogitsWarper(1.0), model.depth)
    assert all(abs(drawn[text][0] - q) < 1e-12 for text, q in distributions.local.items())


def test_the_g_test_agrees_with_scipy_and_sees_the_impossible():
    stats = pytest.importorskip("scipy.stats")
    counts = {"a": 480, "b": 330, "c": 190}
    distribution = {"a": 0.5, "b": 0.3, "c": 0.2}
    wanted = stats.power_divergence(list(counts.values()), [500, 300, 200], lambda_="log-likelihood").pvalue
    assert g_test(counts, distribution) == pytest.approx(wanted, rel=1e-9)
    assert g_test({"d": 1, **counts}, distribution) == 0.0
    assert g_test({"a": 1000}, {"a": 1.0}) == 1.0


def test_the_distributions_of_the_enumerable_model_sum_to_one():
    model = EnumerableModel()
    distributions = model.distributions(LANGUAGE)
    assert len(distributions.model) == 121
    for distribution in (distributions.conditional, distributions.local):
        assert sum(distribution.values()) == pytest.approx(1.0, abs=1e-12)
    distance = sum(abs(distributions.local[text] - distributions.conditional[text]) for text in LANGUAGE) / 2
    assert distance > 0.1  # masking visibly differs from the model's distribution here
