"""The chain's kernel, by enumeration: it leaves the conditional distribution unchanged, with exact weights and with estimates."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

import constrained
from constrained.bench.fidelity.goodness_of_fit import g_test
from constrained.errors import InvalidArgument
from constrained.sampling import AWRS, MCMC, Local, mcmc
from constrained.sampling.mcmc import ChainState
from tests.sampling.enumerated import LANGUAGE, pool_of, small
from tests.support.enumerable_model import EnumerableModel
from tests.support.enumerated_choices import enumerate_outcomes
from tests.support.finite import FiniteAutomaton

CUTS = ["restart", "uniform", "priority"]
TINY = {b"a", b"ab", b"bb", b""}


def states_of(model, language, sampler):
    """Every state that the proposal can write: name -> (probability, state)."""
    found = {}

    def play(dice):
        pool = pool_of(model, language, dice)
        state = ChainState(pool.start([dice])[0])
        sampler._write(pool, [state])
        return state

    for chance, state in enumerate_outcomes(play):
        old = found.get(name(state), (0.0, None))
        found[name(state)] = (old[0] + chance, state)
    return found


def name(state):
    """A state of the chain: its text, and the weights that belong to it."""
    return state.text.content, tuple(round(draw.log_weight, 10) for draw in state.text.draws)


def kernel(model, language, sampler, states):
    """K(x, y), by playing one move of the production code from every state."""
    rows = {}
    for x, (_, state) in states.items():
        row: dict[object, float] = defaultdict(float)

        def play(dice, state=state):
            (after,), _, _ = sampler.move(pool_of(model, language, dice), [state], [dice])
            return name(after)

        for chance, y in enumerate_outcomes(play):
            row[y] += chance
        assert math.fsum(row.values()) == pytest.approx(1.0, abs=1e-12)
        rows[x] = row
    return rows


def target(model, language, states, proposal):
    """The distribution over the states: proposal times weights, whose sum over the weights of a text is the model's own."""
    mass = model.distributions(language).mass
    return {x: chance * math.exp(state.omega) / mass for x, (chance, state) in states.items()}


def check(model, language, sampler):
    states = states_of(model, language, sampler)
    distribution = target(model, language, states, sampler.proposal)
    rows = kernel(model, language, sampler, states)
    for y in states:
        assert math.fsum(distribution[x] * rows[x].get(y, 0.0) for x in states) == pytest.approx(
            distribution[y], abs=1e-12
        )
        for x in states:
            assert distribution[x] * rows[x].get(y, 0.0) == pytest.approx(
                distribution[y] * rows[y].get(x, 0.0), abs=1e-12
            )
    texts: Counter[bytes] = Counter()
    for x, p in distribution.items():
        texts[x[0]] += p
    return texts


@pytest.mark.parametrize("cut", CUTS)
def test_the_kernel_keeps_the_conditional_distribution_and_is_in_detailed_balance(cut):
    model = EnumerableModel(seed=1)
    texts = check(model, LANGUAGE, MCMC(cut=cut))
    for text, p in model.distributions(LANGUAGE).conditional.items():
        assert texts[text] == pytest.approx(p, abs=1e-12)


@pytest.mark.ci
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    "proposal",
    [AWRS(checks=1), AWRS(checks=1, patience=1, when_exhausted="drop")],
    ids=["estimates", "drops"],
)
def test_with_estimated_weights_it_stays_exact(cut, proposal):
    model = small(3)
    sampler = MCMC(cut=cut, proposal=proposal)
    states = states_of(model, TINY, sampler)
    assert len(states) > len(TINY)  # texts come with different weights: these are states of their own
    alive = {x: v for x, v in states.items() if v[1].omega > -math.inf}
    distribution = target(model, TINY, alive, proposal)
    rows = kernel(model, TINY, sampler, alive)
    for y in alive:
        assert math.fsum(distribution[x] * rows[x].get(y, 0.0) for x in alive) == pytest.approx(
            distribution[y], abs=1e-12
        )
    texts: Counter[bytes] = Counter()
    for x, p in distribution.items():
        texts[x[0]] += p
    for text, p in model.distributions(TINY).conditional.items():
        assert texts[text] == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("cut", CUTS)
def test_every_step_comes_closer(cut):
    model = EnumerableModel(seed=1)
    distributions = model.distributions(LANGUAGE)
    sampler = MCMC(cut=cut)
    states = states_of(model, LANGUAGE, sampler)
    rows = kernel(model, LANGUAGE, sampler, states)
    distribution = {x: chance for x, (chance, _) in states.items()}
    distances = []
    for _ in range(60):
        distances.append(sum(abs(p - distributions.conditional[x[0]]) for x, p in distribution.items()) / 2)
        distribution = {y: math.fsum(distribution[x] * rows[x].get(y, 0.0) for x in states) for y in states}
    assert distances[0] > 0.3
    assert all(later <= sooner + 1e-12 for sooner, later in pairwise(distances))
    assert distances[-1] < 0.2 * distances[0]


# ---------------------------------------------------------------- negative controls


def always(old, new):
    return 1.0


def without_lengths(old, new):
    return math.exp(min(0.0, new.omega - old.omega))


@pytest.mark.parametrize(("wrong", "cut"), [(always, "restart"), (without_lengths, "uniform")])
def test_a_wrong_acceptance_is_found_out(monkeypatch, wrong, cut):
    monkeypatch.setattr(mcmc, "acceptance_probability", wrong)
    with pytest.raises(AssertionError):
        check(EnumerableModel(seed=1), LANGUAGE, MCMC(cut=cut))


# ---------------------------------------------------------------- end to end


def generator(sampler):
    model = EnumerableModel(seed=1)
    automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)
    return model.distributions(LANGUAGE), constrained.Generator(model, automaton, sampler=sampler)


@pytest.mark.ci
@pytest.mark.parametrize(
    "cut", ["uniform", *(pytest.param(cut, marks=pytest.mark.ci) for cut in CUTS if cut != "uniform")]
)
def test_long_chains_fit_the_conditional_distribution_and_short_ones_do_not(cut):
    distributions, gen = generator(MCMC(steps=40, cut=cut))
    drawn = gen.sample("", 100, seed=1)
    counts = Counter(out.text.encode() for out in drawn)
    assert g_test(counts, distributions.conditional) > 1e-5
    assert g_test(counts, distributions.local) < 1e-5
    assert drawn.distribution == "mcmc"
    assert drawn.attempts == 100 * 41
    assert (
        abs(math.exp(drawn.log_evidence) - distributions.mass)
        < 4.5 * distributions.mass * drawn.log_evidence_error
    )
    assert drawn.ess == pytest.approx(100)


@pytest.mark.ci
def test_the_proposal_can_be_any_sampler_of_tokens():
    distributions, gen = generator(MCMC(steps=20, proposal=AWRS(), cut="uniform"))
    counts = Counter(out.text.encode() for out in gen.sample("", 100, seed=4))
    assert g_test(counts, distributions.conditional) > 1e-5
    out = gen("", seed=4)
    assert (out.distribution, out.log_weight) == ("mcmc", 0.0)
    assert out.stats.attempts == 21


@pytest.mark.parametrize("bad", [{"steps": 0}, {"cut": "middle"}, {"floor": 0}, {"proposal": "local"}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(InvalidArgument):
        MCMC(**bad)
    assert MCMC().proposal == Local()
