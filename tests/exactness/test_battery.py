"""Every sampler on constraints of every front end, against enumeration (`tests/exactness/battery.py`)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import constrained
from constrained import AWRS, CARS, MCMC, SMC, ASAp, Local, Rejection, Speculation
from constrained.errors import BudgetExhausted, DoesNotFit
from tests.exactness.battery import ALL, CASES, Case, Truncation
from tests.exactness.goodness_of_fit import fit, z_score

TOKENWISE = [Local(), AWRS(), AWRS(cached=False, checks=1, patience=3)]
EXACT = [CARS(), CARS(parallel=1), Rejection()]
WEIGHTED = [
    *TOKENWISE,
    AWRS(cached=False, when_exhausted="drop", patience=8),
    ASAp(),
    SMC(threshold=0.0),
    SMC(threshold=0.5, proposal=Local()),
    SMC(threshold=1.0, resampling="multinomial"),
    SMC(threshold=1.0, resampling="residual", proposal=Local()),
    SMC(threshold=0.7, resampling="stratified"),
]
CHAINS = [MCMC(steps=1), MCMC(steps=3, proposal=AWRS())]
LARGEST = [case for case in ALL if case.limit == next(c for c in CASES if c.name == case.name).limit]
"""Every case at its largest limit."""
FEW = [case for i, case in enumerate(LARGEST) if i % 4 == 0]
"""One for each constraint."""
QUICK = [case for i, case in enumerate(ALL) if case in FEW or i % 16 == 0]
"""Those, and some at smaller limits; the slow tests try all."""

TRUNCATIONS = [
    Truncation(k=1),
    Truncation(k=3),
    Truncation(p=0.4),
    Truncation(p=0.9),
    Truncation(m=0.3),
    Truncation(k=3, p=0.7, m=0.25),
]


def tolerance(case: Case) -> float:
    return 1e-9 if case.dtype is np.float64 else 2e-5


def generator(case: Case, sampler, **settings):
    return constrained.Generator(case.model, case.constraint(), sampler=sampler, **settings)


def settings_of(case: Case) -> dict:
    return {"temperature": case.temperature, "max_tokens": case.limit} | case.truncation.settings


def counts_of(outputs) -> Counter:
    return Counter(out.tokens for out in outputs)


def check_draws(case: Case, sampler, draws: int) -> None:
    """Each draw is valid and states the model's probability of it, and `Local` the exact weight."""
    gen, exact = generator(case, sampler), case.exact
    for seed in range(draws):
        out = gen("", seed=seed, **settings_of(case))
        possible = exact.q if isinstance(sampler, Local) else exact.p
        assert out.tokens in possible, f"{out.text!r} is not valid, or has probability 0"
        assert out.logprob == pytest.approx(math.log(exact.p[out.tokens]), abs=tolerance(case))
        if isinstance(sampler, Local):
            weight = math.log(exact.left[out.tokens] / exact.q[out.tokens])
            assert out.log_weight == pytest.approx(weight, abs=tolerance(case))


def check_distribution(case: Case, sampler, expected: dict, draws: int) -> None:
    """A G-test of one set."""
    outputs = generator(case, sampler).sample("", draws, seed=case.seed, **settings_of(case))
    p = fit(counts_of(outputs), expected)
    assert p > 1e-4, f"p = {p}"


def check_evidence(case: Case, sampler, sets: int, size: int) -> None:
    """The estimate of P(x) is unbiased for each sequence x that is drawn often, and so is their sum.

    A rare sequence has a large weight: the mean of a few draws says nothing about it. Nor about the sets of ASAp where hardly any
    text of the model is valid: one that is valid at once has a large part of the expectation, and is never drawn.
    """
    gen, exact = generator(case, sampler), case.exact
    pi = exact.pi
    if isinstance(sampler, ASAp) and sum(exact.p.values()) * sets * size < 1:
        return
    often = [ids for ids in exact.p if min(exact.q[ids], pi[ids]) * sets * size > 60]
    found = {ids: np.zeros(sets) for ids in often}
    for seed in range(sets):
        try:
            outputs = gen.sample("", size, seed=seed, **settings_of(case))
        except BudgetExhausted:
            continue
        for out, weight in zip(outputs, outputs.weights, strict=True):
            assert out.tokens in exact.p
            if out.tokens in found:
                found[out.tokens][seed] += math.exp(outputs.log_evidence) * weight
    for ids in often:
        assert abs(z_score(found[ids], exact.p[ids])) < 4.5, case.text(ids)
    if often:  # where what is drawn and what is likely have nothing in common, only validity is judged
        expected = math.fsum(exact.p[ids] for ids in often)
        assert abs(z_score(sum(found.values()), expected)) < 4.5


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_every_draw_states_the_probability_and_weight_of_its_tokens(case):
    for sampler in TOKENWISE[:2]:
        check_draws(case, sampler, 8)


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_masking_draws_from_the_locally_normalised_distribution(case):
    for sampler in TOKENWISE[:2]:
        check_distribution(case, sampler, case.exact.q, 250)


def truncated(case: Case, truncations=TRUNCATIONS) -> list[Case]:
    return [replace(case, truncation=truncation) for truncation in truncations]


@pytest.mark.parametrize("case", QUICK[::2], ids=str)
def test_truncated_masking_draws_from_what_truncation_leaves(case):
    for one in truncated(case, TRUNCATIONS[QUICK.index(case) % 3 :: 3]):
        check_draws(one, Local(), 6)
        check_distribution(one, Local(), one.exact.q, 250)


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_cars_and_rejection_draw_from_the_conditional_distribution(case):
    for sampler in EXACT[:: 2 if case.exact.mass > 0.05 else 3]:
        check_distribution(case, sampler, case.exact.pi, 250)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_bounds_hold_and_the_estimate_is_inside_of_them(case):
    for sampler in (CARS(), ASAp(), Local(), AWRS(), SMC(threshold=0.9), CHAINS[0]):
        gen = generator(case, sampler)
        for n in (1, 10, 60):
            outputs = gen.sample("", n, seed=n, **settings_of(case))
            lower, upper = outputs.bounds
            assert lower <= case.exact.mass * (1 + 1e-9)
            assert case.exact.mass * (1 - 1e-9) <= upper
            if isinstance(sampler, CARS) and n > 1:
                assert lower * (1 - 1e-9) <= math.exp(outputs.log_evidence) <= upper * (1 + 1e-9)


@pytest.mark.parametrize("case", FEW[::3], ids=str)
@pytest.mark.parametrize(
    "sampler", [*WEIGHTED[3:5], *(pytest.param(one, marks=pytest.mark.ci) for one in WEIGHTED[5:7])], ids=repr
)
def test_weighted_sets_are_unbiased(case, sampler):
    check_evidence(case, sampler, 80, 6)


@pytest.mark.ci
@pytest.mark.parametrize("case", FEW[1::3], ids=str)
@pytest.mark.parametrize("sampler", CHAINS, ids=repr)
def test_a_chain_has_the_distribution_of_its_moves(case, sampler):
    gen = generator(case, sampler)
    outputs = gen.batch([""] * 150, seed=case.seed, **settings_of(case))
    if isinstance(sampler.proposal, Local):
        assert fit(counts_of(outputs), case.exact.after_moves(sampler.steps)) > 1e-4
    else:
        assert set(counts_of(outputs)) <= set(case.exact.p)


@pytest.mark.parametrize(
    "case", [*FEW[::2], *(pytest.param(case, marks=pytest.mark.ci) for case in FEW[1::2])], ids=str
)
def test_drafts_batches_and_streams_do_not_change_a_draw(case):
    drafts = Speculation(nodes=8, adapts=False)
    exact = EXACT if case.exact.mass > 0.02 else EXACT[:2]
    for sampler in (Local(), AWRS(), *exact, *CHAINS[:1], ASAp(), SMC(particles=3)):
        plain = generator(case, sampler)
        drafted = generator(case, sampler, speculation=drafts)
        outputs = plain.batch([""] * 3, seed=5, **settings_of(case))
        for sequence, out in enumerate(outputs):
            arguments = {"seed": 5, "sequence": sequence} | settings_of(case)
            *_, last = plain.stream("", **arguments)
            for other in (plain("", **arguments), drafted("", **arguments), last.output):
                assert other.tokens == out.tokens
                assert other.logprob == pytest.approx(out.logprob, abs=tolerance(case))


def test_masking_near_a_limit_allows_whatever_can_end_in_time():
    """Where a longer text has fewer tokens than the one with the fewest bytes."""
    case = next(case for case in ALL if case.name == "lark-lexed" and case.limit == 2)
    check_distribution(case, Local(), case.exact.q, 250)


AT_OTHER_LIMITS = [
    replace(case, limit=limit, longest=case.limit, seed=limit)
    for case in CASES
    for limit in range(1, case.limit + 1)
    if not any((other.name, other.limit) == (case.name, limit) for other in ALL)
]
"""Limits within which one text or none is valid, and those of predicates, whose masks do not look ahead."""


@pytest.mark.parametrize("case", AT_OTHER_LIMITS, ids=str)
def test_limits_that_leave_one_text_or_are_met_by_a_dead_end(case):
    exact = case.exact
    for sampler in (*EXACT[:2], AWRS(), SMC(particles=4)):
        gen = generator(case, sampler)
        if not exact.p:
            with pytest.raises((DoesNotFit, BudgetExhausted)):
                gen("", seed=1, **settings_of(case))
            continue
        outputs = gen.sample("", 120, seed=case.seed, **settings_of(case))
        for out in outputs:
            assert out.logprob == pytest.approx(math.log(exact.p[out.tokens]), abs=tolerance(case))
        if isinstance(sampler, CARS):
            assert fit(counts_of(outputs), exact.pi) > 1e-4
            lower, upper = outputs.bounds
            assert lower * (1 - 1e-9) <= exact.mass <= upper * (1 + 1e-9)


# The whole battery.


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=str)
def test_all_distributions_over_many_draws(case):
    for sampler in TOKENWISE:
        check_draws(case, sampler, 40)
        check_distribution(case, sampler, case.exact.q, 2000)
    for sampler in EXACT:
        if not isinstance(sampler, Rejection) or case.exact.mass > 0.02:
            check_distribution(case, sampler, case.exact.pi, 2000)


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=str)
def test_all_truncations_over_many_draws(case):
    drafts = Speculation(nodes=8, adapts=False)
    for one in truncated(case):
        check_draws(one, Local(), 25)
        check_distribution(one, Local(), one.exact.q, 1500)
        plain, drafted = generator(one, Local()), generator(one, Local(), speculation=drafts)
        for seed in range(5):
            alone, other = (gen("", seed=seed, **settings_of(one)) for gen in (plain, drafted))
            assert (alone.tokens, alone.logprob) == (other.tokens, pytest.approx(other.logprob, abs=1e-9))


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGEST[::3], ids=str)
@pytest.mark.parametrize("sampler", WEIGHTED, ids=repr)
def test_all_weighted_sets_are_unbiased(case, sampler):
    check_evidence(case, sampler, 200, 8)


@pytest.mark.slow
@pytest.mark.parametrize("case", FEW, ids=str)
@pytest.mark.parametrize("cut", ["restart", "uniform", "priority"])
def test_a_long_chain_has_the_conditional_distribution(case, cut):
    # 40 steps show the beginning: under gbnf, p is 1e-5 to .04 with the cuts that keep a prefix, and .4 to .6 with 160.
    gen = generator(case, MCMC(steps=160, cut=cut))
    outputs = gen.batch([""] * 300, seed=case.seed, **settings_of(case))
    assert fit(counts_of(outputs), case.exact.pi) > 1e-4


# Wrong claims are found.

CONTROLS = [replace(case, temperature=1.0, kind="smooth", dtype=np.float64, seed=7) for case in FEW[::2]]


def finds(check, *arguments) -> bool:
    try:
        check(*arguments)
    except AssertionError:
        return True
    return False


def test_the_battery_finds_masking_where_the_conditional_distribution_is_claimed():
    assert sum(finds(check_distribution, case, Local(), case.exact.pi, 300) for case in CONTROLS) >= 4


def test_the_battery_finds_ends_that_are_certain():
    weighed = [finds(check_draws, case, Local(ends="certain"), 20) for case in CONTROLS]
    drawn = [finds(check_distribution, case, CARS(ends="certain"), case.exact.pi, 300) for case in CONTROLS]
    assert all(weighed)
    assert sum(drawn) >= 3


def test_the_battery_finds_another_temperature():
    def check(case):
        other = replace(case, temperature=2.0)
        outputs = generator(case, CARS()).sample("", 300, seed=1, **settings_of(other))
        assert fit(counts_of(outputs), case.exact.pi) > 1e-4

    assert sum(finds(check, case) for case in CONTROLS) >= 2


@pytest.mark.ci
def test_the_battery_finds_another_truncation():
    """What is drawn does not fit the distributions of no truncation, or of another."""

    def draw(case, truncation):
        settings = settings_of(replace(case, truncation=truncation))
        return counts_of(generator(case, Local()).sample("", 400, seed=1, **settings))

    def check(case, truncation, expected):
        assert fit(draw(case, truncation), expected) > 1e-4

    for truncation, claimed in [
        (Truncation(k=2), Truncation()),
        (Truncation(p=0.6), Truncation(p=0.7)),
        (Truncation(k=2, p=0.9), Truncation(p=0.9)),
        (Truncation(m=0.3), Truncation(m=0.2)),
    ]:
        right, wrong = (
            [finds(check, case, truncation, replace(case, truncation=claim).exact.q) for case in CONTROLS[:3]]
            for claim in (truncation, claimed)
        )
        assert any(wrong), truncation
        assert not any(right)
