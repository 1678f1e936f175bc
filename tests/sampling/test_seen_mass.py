"""Weighted sets say for certain what P(L) can be: bounds against enumeration, also where every estimate is wrong."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained import AWRS, MCMC, SMC, ASAp, Local
from constrained.sampling import Sampler
from tests.exactness.enumerate import TableModel
from tests.sampling.enumerated import ExpensiveAutomaton
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton

SAMPLERS = [
    Local(),
    AWRS(cached=False),
    AWRS(checks=1, patience=1, when_exhausted="drop"),
    SMC(threshold=1.0),
    SMC(proposal=Local(), threshold=0.9, resampling="multinomial"),
    MCMC(steps=2, cut="uniform"),
    ASAp(),
]
LANGUAGES = st.sets(st.text("ab", max_size=3).map(str.encode), min_size=1, max_size=6)


def set_of(
    model: EnumerableModel, language: set[bytes], sampler: Sampler, count: int, *, costly: bool = False
):
    automaton = (ExpensiveAutomaton if costly else FiniteAutomaton)(language, model.vocabulary)
    gen = constrained.Generator(model, automaton, sampler=sampler)
    return gen.sample("", count, seed=1, temperature=1.0, max_tokens=model.depth)


@given(LANGUAGES, st.integers(0, 1000), st.sampled_from(SAMPLERS), st.integers(1, 12), st.booleans())
def test_the_bounds_hold_and_the_lower_one_is_the_mass_of_the_texts(language, seed, sampler, count, costly):
    model = EnumerableModel(seed=seed, letters=(b"a", b"b"), depth=3)
    distributions = model.distributions(language)
    try:
        drawn = set_of(model, language, sampler, count, costly=costly)
    except constrained.errors.ConstrainedError:
        assert getattr(sampler, "when_exhausted", "") == "drop"  # every text was dropped
        return
    low, high = drawn.bounds
    assert low <= distributions.mass * (1 + 1e-9)
    assert distributions.mass <= high * (1 + 1e-9)
    found = math.fsum(distributions.model[text] for text in {out.text.encode() for out in drawn})
    assert low >= found * (
        1 - 1e-9
    )  # and that of texts that were drawn and left: of proposals, of resampled ones


@given(LANGUAGES, st.integers(0, 1000), st.integers(1, 12))
def test_the_upper_bound_of_masks_is_one_without_what_they_refused(language, seed, count):
    model = EnumerableModel(seed=seed, letters=(b"a", b"b"), depth=3)
    drawn = set_of(model, language, Local(), count)
    refused = 0.0
    for prefix in {out.tokens[:n] for out in drawn for n in range(min(len(out.tokens), model.depth - 1) + 1)}:
        reach = math.prod(model.rows[prefix[:n]][token] for n, token in enumerate(prefix))
        for token, p in enumerate(model.rows[prefix]):
            text = model.vocabulary.decode(prefix)
            longer = text + (b"" if token == model.eos else model.vocabulary.decode((token,)))
            if token == model.eos and text in language:
                continue
            if token == model.eos or not any(one.startswith(longer) for one in language):
                refused += reach * p
    assert drawn.bounds[1] == pytest.approx(1.0 - refused, abs=1e-9)


def trapped() -> TableModel:
    """Nearly all valid mass is behind `b`, which masks hardly ever take; what they take is hardly ever valid."""
    rows = {(): [1.0 - 1e-5, 1e-5, 0.0, 0.0], (0,): [0.0, 0.0, 1e-9, 1.0 - 1e-9], (1,): [0.0, 0.0, 1.0, 0.0]}
    return TableModel((b"a", b"b", b"c"), lambda completion: rows.get(completion, [0.0, 0.0, 0.0, 1.0]))


@pytest.mark.parametrize("sampler", ["local", "awrs", "smc"])
def test_a_wrong_estimate_with_a_full_effective_sample_size_is_inside_wide_bounds(sampler):
    model = trapped()
    mass = math.fsum(model.mass({b"ac", b"bc"}).values())
    gen = constrained.Generator(model, constrained.choice(["ac", "bc"]), sampler=sampler)
    drawn = gen.sample("", 40, seed=1, temperature=1.0)
    assert set(drawn.posterior) == {"ac"}
    assert drawn.ess == pytest.approx(40.0)
    assert math.exp(drawn.log_evidence) < 0.002 * mass
    low, high = drawn.bounds
    assert low < 0.002 * mass
    assert mass <= high < 1.01 * mass
    assert "bounds=(1e-09, 1e-05)" in repr(drawn)
    assert "of these" in repr(drawn)
    (exact,) = constrained.Generator(model, constrained.choice(["ac", "bc"]), sampler="cars").sample(
        "", 1, seed=1
    )
    assert exact.text == "bc"


def test_truncated_sets_have_no_bounds():
    gen = constrained.Generator(EnumerableModel(seed=1), constrained.regex("ab?|c{1,3}"), sampler="local")
    assert gen.sample("", 5, seed=1, temperature=1.0, top_k=2).bounds is None
    assert gen.sample("", 5, seed=1, temperature=1.0).bounds is not None


def test_mcmc_tells_how_many_moves_were_accepted_and_how_many_chains_stood_still():
    rows = {(): [0.5, 0.3, 0.2, 0.0], (0,): [0.0, 0.0, 0.1, 0.9], (1,): [0.0, 0.0, 0.8, 0.2]}
    model = TableModel((b"a", b"b", b"c"), lambda completion: rows.get(completion, [0.0, 0.0, 0.0, 1.0]))
    proposal, weight = {"ac": 0.625, "bc": 0.375}, {"ac": 0.8 * 0.1, "bc": 0.8 * 0.8}
    pairs = [
        (x, y, proposal[x] * proposal[y] * min(1.0, weight[y] / weight[x])) for x in weight for y in weight
    ]
    gen = constrained.Generator(model, constrained.choice(["ac", "bc"]), sampler=MCMC(steps=1))
    drawn = gen.sample("", 400, seed=1)
    assert drawn.moves.accepted == pytest.approx(math.fsum(p for _, _, p in pairs), abs=0.1)
    assert drawn.moves.unmoved == pytest.approx(1 - math.fsum(p for x, y, p in pairs if x != y), abs=0.1)
    longer = constrained.Generator(model, constrained.choice(["ac", "bc"]), sampler=MCMC(steps=20))
    assert longer.sample("", 100, seed=1).moves.unmoved < 0.2
    still = constrained.Generator(trapped(), constrained.choice(["ac", "bc"]), sampler="mcmc").sample(
        "", 5, seed=1
    )
    assert (still.moves.accepted, still.moves.unmoved) == (1.0, 1.0)  # each proposal is the text itself
    assert (
        constrained.Generator(model, constrained.choice(["ac"]), sampler="cars").sample("", 2).moves is None
    )
