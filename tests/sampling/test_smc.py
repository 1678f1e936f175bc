"""Sequential Monte Carlo: unbiased for any number of particles and any resampling, by enumeration where that is possible."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import constrained
from constrained.bench.fidelity.measure import TaskMeasurement
from constrained.bench.fidelity.ngrams import NGramModel
from constrained.bench.fidelity.tasks import TASKS
from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.sampling import AWRS, SMC, Local, PhiloxRandomness, Randomness, SampleBatch
from constrained.sampling.resampling import RESAMPLINGS
from constrained.sampling.seen_mass import SeenMass
from constrained.vocabulary import Vocabulary
from tests.sampling.enumerated import LANGUAGE, distance, distribution_of, pool_of, small
from tests.support.enumerable_model import EnumerableModel
from tests.support.enumerated_choices import enumerate_outcomes
from tests.support.finite import FiniteAutomaton

SCHEMES = sorted(RESAMPLINGS)
TINY = {b"a", b"ab", b"bb", b""}
EXACT = [Local(), AWRS(checks=1, cached=False)]


def particles(sampler, count):
    """What a run came to: (evidence, ((text, weight), ...))."""

    def play(pool):
        texts, _, _ = sampler._write(pool, count, SeenMass())
        return tuple((text.content, text.log_weight) for text in texts)

    return play


def weighted(distribution, count):
    """E[mean over particles of w 1{text}], by text."""
    found: dict[bytes, float] = defaultdict(float)
    for outcome, chance in distribution.items():
        for text, log_weight in outcome:
            if log_weight > -math.inf:
                found[text] += chance * math.exp(log_weight) / count
    return found


# ---------------------------------------------------------------- part 4 of the battery


@pytest.mark.parametrize("proposal", EXACT, ids=["local", "awrs"])
def test_one_particle_is_properly_weighted(proposal):
    model = small(3)
    distributions = model.distributions(TINY)
    found = weighted(distribution_of(particles(SMC(proposal=proposal), 1), model, TINY), 1)
    for text in TINY:
        assert found[text] == pytest.approx(distributions.model[text], abs=1e-12)


@pytest.mark.parametrize("scheme", ["multinomial", "residual"])
@pytest.mark.parametrize("threshold", [0.0, 0.9, 1.0])
def test_two_particles_that_are_drawn_anew_are_unbiased_for_every_text(scheme, threshold):
    model = small(3)
    distributions = model.distributions(TINY)
    sampler = SMC(proposal=Local(), resampling=scheme, threshold=threshold)
    distribution = distribution_of(particles(sampler, 2), model, TINY)
    found = weighted(distribution, 2)
    for text in TINY:
        assert found[text] == pytest.approx(distributions.model[text], abs=1e-12)


def test_dropping_the_weights_is_found_out():
    class Unweighted(Local):
        def propose(self, position):
            drawn = Local.propose(self, position)
            return type(drawn)(drawn.token, drawn.logprob, 0.0)

    model = small(3)
    found = weighted(distribution_of(particles(SMC(proposal=Unweighted()), 1), model, TINY), 1)
    assert sum(found.values()) == pytest.approx(1.0)
    assert model.distributions(TINY).mass < 0.9


def runs(sampler, count, repeats):
    model = EnumerableModel(seed=1)
    found = []
    for i in range(repeats):
        pool = pool_of(model, LANGUAGE, None)
        pool.randomness = lambda attempt, i=i: PhiloxRandomness(11, i, attempt)
        drawn: SampleBatch = sampler.draw(pool, count)
        found.append(drawn)
    return model.distributions(LANGUAGE), found


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("repeats", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_the_evidence_is_unbiased_and_so_is_the_weight_of_every_text(scheme, repeats):
    distributions, found = runs(SMC(resampling=scheme, proposal=Local()), 6, repeats)
    evidence = np.array([math.exp(drawn.log_evidence) for drawn in found])  # never averaged as logarithms
    assert abs(evidence.mean() - distributions.mass) < 4.5 * evidence.std() / math.sqrt(repeats)
    for text in LANGUAGE:
        share = np.array(
            [sum(math.exp(t.log_weight) for t in drawn.texts if t.content == text) / 6 for drawn in found]
        )
        assert abs(share.mean() - distributions.model[text]) < 4.5 * share.std() / math.sqrt(repeats) + 1e-12


@pytest.mark.ci
def test_the_error_of_one_run_is_about_the_spread_of_many():
    for threshold in (0.0, 0.7):
        _, found = runs(SMC(proposal=Local(), threshold=threshold), 12, 80)
        evidence = np.array([math.exp(drawn.log_evidence) for drawn in found])
        spread = evidence.std() / evidence.mean()
        reported = math.sqrt(np.mean([(drawn.log_evidence_error or 0.0) ** 2 for drawn in found]))
        assert spread / 1.7 < reported < spread * 1.7


# ---------------------------------------------------------------- resampling


class Points(Randomness):
    """Uniform numbers that a test gives, and choices by them."""

    def __init__(self, *numbers):
        self.numbers = numbers

    def uniform(self, count, place, purpose):
        return np.array([self.numbers[i % len(self.numbers)] for i in range(count)])

    def pick(self, scores, ids, place, purpose=0):
        raise NotImplementedError

    def order(self, scores, ids, place):
        raise NotImplementedError


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any))
def test_every_scheme_expects_each_particle_n_times_its_weight(raw):
    weights = np.array(raw) / sum(raw)
    count, grid = len(raw), sum(raw) * 4
    for name in (
        "systematic",
        "stratified",
    ):  # the mean over the offset, exactly: it is a step function of it
        drawn: Counter[int] = Counter()
        for i in range(grid):
            drawn.update(RESAMPLINGS[name](weights, Points((i + 0.5) / grid), 0).tolist())
        for i in range(count):
            assert drawn[i] / grid == pytest.approx(count * weights[i], abs=1e-9)


@pytest.mark.parametrize("name", ["multinomial", "residual"])
@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.2, 0.8], [0.1, 0.6, 0.3], [0.0, 1.0, 0.0]])
def test_every_scheme_of_independent_draws_expects_the_same(name, weights):
    expected = np.zeros(len(weights))
    for chance, kept in enumerate_outcomes(lambda dice: RESAMPLINGS[name](np.array(weights), dice, 0)):
        expected += chance * np.bincount(kept, minlength=len(weights))
    assert expected == pytest.approx(len(weights) * np.array(weights), abs=1e-12)


def test_clones_go_on_with_noise_of_their_own():
    """One ancestor, eight particles: they must not all write the same."""
    model = EnumerableModel(seed=4, depth=6)
    texts = {b"a" + bytes([x, y, z]) for x in b"abc" for y in b"abc" for z in b"abc"}

    def potential(text, finished):
        return 0.0 if text.startswith(b"a") else -math.inf

    gen = constrained.Generator(
        model,
        FiniteAutomaton(texts, model.vocabulary),
        sampler=SMC(threshold=1.0, potential=potential),
    )
    assert len({out.text for out in gen.sample("", 16, seed=1)}) > 6


# ---------------------------------------------------------------- potentials


def reward(text: bytes, finished: bool) -> float:
    """Prefers letters c; on the way it promises something else altogether."""
    return 0.9 * text.count(b"c") if finished else 0.3 * len(text)


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_only_the_potential_of_finished_completions_changes_the_distribution(threshold):
    model = small(3, letters=(b"a", b"c"))
    language = {b"a", b"ac", b"cc", b""}
    distributions = model.distributions(language)
    sampler = SMC(proposal=Local(), potential=reward, resampling="multinomial", threshold=threshold)
    found = weighted(distribution_of(particles(sampler, 2), model, language), 2)
    for text in language:
        assert found[text] == pytest.approx(
            distributions.model[text] * math.exp(reward(text, True)), abs=1e-12
        )


def test_minus_infinity_ends_a_particle_and_nothing_left_is_an_error():
    model = EnumerableModel(seed=1)
    automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)

    def no_a(text, finished):
        return -math.inf if b"a" in text else 0.0

    gen = constrained.Generator(model, automaton, sampler=SMC(potential=no_a))
    drawn = gen.sample("", 600, seed=0)
    assert {out.text for out in drawn} <= {"", "bbbb", "ccc", "cccc"}
    distributions = model.distributions(LANGUAGE)
    wanted = sum(distributions.model[text] for text in LANGUAGE if b"a" not in text)
    assert math.exp(drawn.log_evidence) == pytest.approx(wanted, rel=0.2)
    nothing = constrained.Generator(model, automaton, sampler=SMC(potential=lambda text, finished: -math.inf))
    with pytest.raises(BudgetExhausted):
        nothing.sample("", 4, seed=0)
    with pytest.raises(BudgetExhausted):
        nothing("", seed=0)
    wrong = constrained.Generator(model, automaton, sampler=SMC(potential=lambda text, finished: math.nan))
    with pytest.raises(InvalidArgument, match="potential"):
        wrong("", seed=0)


# ---------------------------------------------------------------- end to end


@pytest.mark.parametrize(
    "proposal",
    [Local(), pytest.param(AWRS(cached=False), marks=pytest.mark.ci)],
    ids=["local", "awrs"],
)
def test_many_particles_come_close_to_the_conditional_distribution(proposal):
    model = EnumerableModel(seed=1)
    distributions = model.distributions(LANGUAGE)
    automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)
    gen = constrained.Generator(model, automaton, sampler=SMC(proposal=proposal))
    drawn = gen.sample("", 1500, seed=0)
    posterior = {text.encode(): p for text, p in drawn.posterior.items()}
    assert distance(distributions.local, distributions.conditional) > 0.3
    assert distance(posterior, distributions.conditional) < 0.05
    assert (
        abs(math.exp(drawn.log_evidence) - distributions.mass)
        < 4.5 * distributions.mass * drawn.log_evidence_error
    )
    assert drawn.forwards <= 40  # as many as there are prefixes, not as there are particles
    assert drawn.mean(lambda out: len(out.text)) == pytest.approx(
        sum(len(text) * p for text, p in distributions.conditional.items()), abs=0.15
    )


def test_one_text_is_one_particle_drawn_by_its_weight():
    model = EnumerableModel(seed=1)
    distributions = model.distributions(LANGUAGE)
    gen = constrained.Generator(model, FiniteAutomaton(LANGUAGE, model.vocabulary), sampler=SMC(particles=24))
    outs = gen.batch([[model.eos]] * 60, seed=1)
    counts = {text: n / 60 for text, n in Counter(out.text.encode() for out in outs).items()}
    assert (
        distance(counts, distributions.conditional)
        < 0.25
        < distance(distributions.local, distributions.conditional)
    )
    assert (outs[0].distribution, outs[0].log_weight, outs[0].stats.attempts) == ("smc", 0.0, 24)


@pytest.mark.parametrize(
    "bad", [{"particles": 0}, {"threshold": 2}, {"resampling": "bootstrap"}, {"proposal": "awrs"}]
)
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(InvalidArgument):
        SMC(**bad)


# ---------------------------------------------------------------- when to draw anew


class Moody(NGramModel):
    """After "a" it wants to leave the language half of the time, after "b" hardly ever; each likes to go on as it is."""

    steps = np.array([[0.45, 0.05, 0.5], [0.1, 0.85, 0.05]])

    def __init__(self):
        super().__init__(Vocabulary.from_bytes([b"a", b"b", b"c", b""], [3]), [])

    def logits(self, prompt, tokens):
        return np.log([*(self.steps[tokens[-1]] if tokens else (0.5, 0.3, 0.2)), 1e-12])


def test_drawing_anew_pays_where_what_was_paid_tells_what_will_be():
    """In long texts the weights alone end on the one that happened to change over to "b" first."""
    length, model = 60, Moody()
    onward, is_a = model.steps[:, :2], np.array([1.0, 0.0])
    mass = np.array([0.5, 0.3])
    letters = mass * is_a  # E[number of "a" 1{...}] by the last letter
    for _ in range(length - 1):
        mass, letters = mass @ onward, letters @ onward + (mass @ onward) * is_a
    exact = letters.sum() / mass.sum()
    errors = {}
    for sampler in (Local(), SMC(proposal=Local())):
        gen = constrained.Generator(model, constrained.regex(f"[ab]{{{length}}}"), sampler=sampler)
        drawn = [
            gen.sample([3], 16, sequence=i, seed=2, temperature=1.0, max_tokens=length) for i in range(3)
        ]
        means = np.array([one.mean(lambda out: out.text.count("a")) for one in drawn])
        errors[type(sampler)] = float(np.sqrt(np.mean((means - exact) ** 2)))
    assert errors[SMC] < 0.7 * errors[Local], errors


def test_by_default_particles_that_have_paid_first_are_not_thrown_away():
    """In this language weights speak against what is likely, for a while: half of the texts pay at their eighth
    token and the others later. Then drawing anew below half is worse than never; the default is not."""
    task = next(task for task in TASKS if task.name == "trees/large")
    measured = TaskMeasurement(task, None, 50_000)
    distances = {}
    for name, sampler in (
        ("never", SMC(proposal=Local(), threshold=0.0)),
        ("default", SMC(proposal=Local())),
        ("half", SMC(proposal=Local(), threshold=0.5)),
    ):
        gen = constrained.Generator(measured.model, task.constraint, sampler=sampler)
        drawn = [gen.sample(measured.prompt, 60, sequence=i, seed=7, max_tokens=task.limit) for i in range(3)]
        distances[name] = np.mean([distance(one.posterior, measured.exact.conditional) for one in drawn])
    assert distances["half"] > 1.5 * distances["never"]
    assert distances["default"] < 1.15 * distances["never"]
