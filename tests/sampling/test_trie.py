"""CARS and ASAp: exact at every state of the trie, by enumeration of every choice of the production code."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import constrained
from constrained.bench.fidelity.goodness_of_fit import g_test
from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.sampling import CARS, PhiloxRandomness, Rejection, Trie, Tries, trie_walk
from constrained.sampling.attempts import Attempt, AttemptTally
from constrained.sampling.cars import run_through_trie
from tests.sampling.enumerated import LANGUAGE, distance, distribution_of, future, pool_of, small
from tests.support.enumerable_model import EnumerableModel
from tests.support.finite import FiniteAutomaton

ACCEPT = trie_walk.AcceptByRatio()


def twin(trie):
    return Trie.of(trie.columns())


def attempts(trie, use, count=1):
    """Plays attempts from a copy of a trie; the outcome of each: (text, weight), or None for one that was given up."""

    def play(pool):
        texts = pool.start([pool.randomness(i) for i in range(count)])
        run_through_trie(pool, twin(trie), texts, use)
        return tuple(None if t.finish == "dead" else (t.content, round(t.log_weight, 13)) for t in texts)

    return play


def taught(model, rounds, *, costly=False, use=ACCEPT, width=2, seed=0):
    """A trie after some rounds of real attempts."""
    trie = Trie()
    for i in range(rounds):
        pool = pool_of(model, LANGUAGE, None, costly=costly)
        run_through_trie(pool, trie, pool.start([PhiloxRandomness(seed, i, j) for j in range(width)]), use)
    return trie


# ---------------------------------------------------------------- part 2 of the battery: exact distributions of completions


@pytest.mark.parametrize("costly", [False, True], ids=["masks", "questions"])
@pytest.mark.parametrize("rounds", [0, 1, 3, 10])
def test_a_cars_attempt_draws_every_text_with_its_probability_over_theta(rounds, costly):
    model = EnumerableModel(seed=1)
    model_distributions = model.distributions(LANGUAGE)
    trie = taught(model, rounds, costly=costly)
    round_distribution = distribution_of(
        attempts(trie, trie_walk.AcceptByRatio()), model, LANGUAGE, costly=costly
    )
    root = trie.bound()
    for text in LANGUAGE:
        assert round_distribution.get(((text, 0.0),), 0.0) == pytest.approx(
            model_distributions.model[text] / root, abs=1e-12
        )
    assert 1 - round_distribution.get((None,), 0.0) == pytest.approx(
        model_distributions.mass / root, abs=1e-12
    )


@pytest.mark.parametrize("costly", [False, True], ids=["masks", "questions"])
def test_the_bounds_hold_and_only_ever_tighten(costly):
    model = EnumerableModel(seed=2)
    mass = model.distributions(LANGUAGE).mass
    trie, before = Trie(), 1.0
    for i in range(150 if costly else 60):
        pool = pool_of(model, LANGUAGE, None, costly=costly)
        run_through_trie(pool, trie, pool.start([PhiloxRandomness(3, i)]), trie_walk.AcceptByRatio())
        assert mass - 1e-12 <= trie.bound() <= before
        before = trie.bound()
    assert mass / trie.bound() > 0.95  # and acceptance has become almost certain
    for node in range(1, len(trie)):
        prefix, up = [], node
        while up:
            prefix.insert(0, trie.token[up])
            up = trie.parent[up]
        if model.eos not in prefix:
            assert trie.bound(node) >= future(model, LANGUAGE, prefix) - 1e-12


@settings(max_examples=15)
@given(
    st.sets(st.text("ab", max_size=3).map(str.encode), min_size=1, max_size=6),
    st.integers(0, 1000),
    st.integers(0, 4),
)
def test_any_language_is_drawn_exactly(language, seed, rounds):
    model = EnumerableModel(seed=seed, letters=(b"a", b"b"), depth=3)
    model_distributions = model.distributions(language)
    trie = Trie()
    for i in range(rounds):
        pool = pool_of(model, language, None)
        run_through_trie(pool, trie, pool.start([PhiloxRandomness(seed, i)]), trie_walk.AcceptByRatio())
    round_distribution = distribution_of(attempts(trie, trie_walk.AcceptByRatio()), model, language)
    for text in language:
        assert round_distribution.get(((text, 0.0),), 0.0) == pytest.approx(
            model_distributions.model[text] / trie.bound(), abs=1e-12
        )


@pytest.mark.parametrize("use", ["accept", "learned"])
def test_attempts_side_by_side_are_independent(use):
    """Although what one learns changes how the other goes on."""
    model, language = small(3), {b"a", b"ab", b"bb"}
    model_distributions = model.distributions(language)
    trie = Trie()
    if use == "learned":
        pool = pool_of(model, language, None)
        run_through_trie(pool, trie, pool.start([PhiloxRandomness(1, 0, 0)]), trie_walk.AcceptByRatio())
    root = trie.bound()
    round_distribution = distribution_of(attempts(trie, trie_walk.AcceptByRatio(), 2), model, language)
    chances = {(text, 0.0): model_distributions.model[text] / root for text in language}
    chances[None] = 1 - sum(chances.values())
    for one, p in chances.items():
        for other, q in chances.items():
            assert round_distribution.get((one, other), 0.0) == pytest.approx(p * q, abs=1e-12)


@pytest.mark.parametrize("costly", [False, True], ids=["masks", "questions"])
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_asap_is_properly_weighted_at_every_state(rounds, costly):
    """With expensive membership every order of queries is an outcome, so the language is a small one there."""
    model, language = (small(3), {b"a", b"ab", b"bb"}) if costly else (EnumerableModel(seed=1), LANGUAGE)
    exact = model.distributions(language).model
    trie = Trie()
    for i in range(rounds):
        pool = pool_of(model, language, None, costly=costly)
        run_through_trie(pool, trie, pool.start([PhiloxRandomness(0, i)]), trie_walk.WeightByRatio())
    weighted: Counter[bytes] = Counter()
    for outcome, chance in distribution_of(
        attempts(trie, trie_walk.WeightByRatio()), model, language, costly=costly
    ).items():
        if outcome[0] is not None:
            weighted[outcome[0][0]] += chance * math.exp(outcome[0][1])
    for text in language:
        assert weighted[text] == pytest.approx(exact[text], abs=1e-12)


def test_asap_starts_at_the_local_distribution_and_tends_to_the_conditional_one():
    model = EnumerableModel(seed=1)
    model_distributions = model.distributions(LANGUAGE)

    def round_distribution(rounds):
        found = distribution_of(
            attempts(
                taught(model, rounds, use=trie_walk.WeightByRatio(), width=1), trie_walk.WeightByRatio()
            ),
            model,
            LANGUAGE,
        )
        return {outcome[0][0]: chance for outcome, chance in found.items()}

    assert distance(round_distribution(0), model_distributions.local) < 1e-12
    assert distance(round_distribution(0), model_distributions.conditional) > 0.3
    assert distance(round_distribution(200), model_distributions.conditional) < 0.01


# ---------------------------------------------------------------- negative controls


class WithoutACoin(trie_walk.AcceptByRatio):
    def __call__(self, position, ratio):
        return 0.0


def test_without_the_coin_the_distribution_is_wrong():
    model = EnumerableModel(seed=1)
    model_distributions = model.distributions(LANGUAGE)
    round_distribution = distribution_of(attempts(Trie(), WithoutACoin()), model, LANGUAGE)
    total = sum(chance for outcome, chance in round_distribution.items() if outcome[0] is not None)
    got = {
        outcome[0][0]: chance / total
        for outcome, chance in round_distribution.items()
        if outcome[0] is not None
    }
    assert distance(got, model_distributions.conditional) > 0.1


def test_with_the_bound_of_now_in_place_of_the_one_that_was_used_attempts_are_not_exact(monkeypatch):
    model, language = small(3), {b"a", b"ab", b"bb"}
    model_distributions = model.distributions(language)
    honest = trie_walk.TrieWalk.step

    def step(self, position):
        self.drawn_theta = self.trie.log_theta[self.node]
        honest(self, position)

    monkeypatch.setattr(trie_walk.TrieWalk, "step", step)
    round_distribution = distribution_of(attempts(Trie(), trie_walk.AcceptByRatio(), 2), model, language)
    ratios = [
        chance / math.prod(model_distributions.model[one[0]] for one in pair)
        for pair, chance in round_distribution.items()
        if None not in pair
    ]
    assert max(ratios) > 4  # those of honest attempts are 1 to 1e-12


# ---------------------------------------------------------------- end to end


def generator(sampler, seed=1, language=LANGUAGE):
    model = EnumerableModel(seed=seed)
    return model.distributions(language), constrained.Generator(
        model, FiniteAutomaton(language, model.vocabulary), sampler=sampler
    )


def counts_of(outs):
    return Counter(out.text.encode() for out in outs)


@pytest.mark.parametrize("sampler", ["cars", "rejection"])
def test_draws_fit_the_conditional_distribution_and_not_the_local_one(sampler):
    model_distributions, gen = generator(sampler)
    drawn = gen.sample("", 800, seed=7)
    assert (len(drawn), drawn.distribution) == (800, "conditional")
    assert g_test(counts_of(drawn), model_distributions.conditional) > 1e-5
    assert g_test(counts_of(drawn), model_distributions.local) < 1e-5
    assert set(drawn.weights) == {1 / 800}
    low, high = drawn.bounds
    assert low - 1e-12 <= model_distributions.mass <= high + 1e-12
    assert (
        abs(math.exp(drawn.log_evidence) - model_distributions.mass)
        < 4.5 * model_distributions.mass * drawn.log_evidence_error + 1e-9
    )


def test_single_texts_are_exact_too_and_each_is_a_function_of_its_seed():
    model_distributions, gen = generator("cars")
    outs = gen.batch([[3]] * 400, seed=2)
    assert g_test(counts_of(outs), model_distributions.conditional) > 1e-5
    assert outs[0].distribution == "conditional"
    assert outs[0].log_weight == 0.0
    assert sum(out.stats.attempts for out in outs) > 450
    again = gen([3], seed=2, sequence=17)
    assert (again.tokens, again.stats.attempts) == (outs[17].tokens, outs[17].stats.attempts)
    (chunk,) = gen.stream([3], seed=2, sequence=17)
    assert chunk.output.tokens == again.tokens


def test_cars_makes_ever_fewer_attempts_and_rejection_does_not():
    _, gen = generator("cars")
    _, plain = generator("rejection")
    few, many = gen.sample("", 10, seed=1), gen.sample("", 300, seed=1)
    assert many.acceptance > 0.9 > few.acceptance
    assert plain.sample("", 400, seed=1).acceptance < 0.6


def test_weighted_asap_texts_estimate_the_conditional_distribution():
    model_distributions, gen = generator("asap")
    drawn = gen.sample("", 600, seed=1)
    posterior = {text.encode(): p for text, p in drawn.posterior.items()}
    assert distance(posterior, model_distributions.conditional) < 0.06
    assert (
        abs(math.exp(drawn.log_evidence) - model_distributions.mass)
        < 4.5 * model_distributions.mass * drawn.log_evidence_error
    )


# ---------------------------------------------------------------- budgets


RARE = {b"abca"}


@pytest.mark.parametrize(
    ("sampler", "certain"), [(Rejection(attempts=40), False), (CARS(attempts=1, parallel=2), True)], ids=str
)
def test_an_exhausted_budget_reports_what_was_learned(sampler, certain):
    model_distributions, gen = generator(sampler, seed=5, language=RARE)
    assert model_distributions.mass < 1e-2
    with pytest.raises(BudgetExhausted, match="valid with probability at most") as caught:
        gen.sample("", 20, seed=0)
    learned = caught.value.diagnostics
    assert learned["attempts"] == sampler.attempts * 20
    assert learned["certain"] is certain
    assert learned["lower"] <= model_distributions.mass <= learned["upper"] < 0.05
    assert len(learned["texts"]) == learned["accepted"] < 20
    assert all(text in RARE for text in learned["texts"])


@pytest.mark.parametrize(("attempts", "found"), [(1, 0), (40, 0), (40, 7), (5, 5), (100_000, 99)])
def test_the_likely_bound_is_the_binomial_one(attempts, found):
    beta = pytest.importorskip("scipy.stats").beta
    text = SimpleNamespace(content=b"")
    tally = AttemptTally(
        found + 1, accepted=[text] * found, made=[Attempt(0.0, 0.0, False, False)] * attempts
    )
    wanted = 1.0 if found == attempts else beta.ppf(0.95, found + 1, attempts - found)
    assert tally.budget_error(certain=False, forwards=0).diagnostics["upper"] == pytest.approx(
        wanted, rel=1e-6
    )


def test_a_mass_of_a_billionth_ends_with_a_bound():
    model = EnumerableModel(seed=0, letters=(b"a", b"b"), depth=6)
    for prefix, row in model.rows.items():
        if set(prefix) <= {0}:
            row[:] = [0.02, 0.97, 0.01]  # P(aaaaaa) is about 6e-11
    mass = model.distributions({b"aaaaaa"}).mass
    assert mass < 1e-9
    automaton = FiniteAutomaton({b"aaaaaa"}, model.vocabulary)
    for sampler in (Rejection(attempts=60), CARS(attempts=3, parallel=1)):
        with pytest.raises(BudgetExhausted) as caught:
            constrained.Generator(model, automaton, sampler=sampler)("", seed=0, temperature=1.0)
        assert mass <= caught.value.diagnostics["upper"] < 0.2
    # Once the trie has seen the way, the text comes at once, whatever its mass.
    out = constrained.Generator(model, automaton, sampler="cars")("", seed=0)
    assert out.text == "aaaaaa"
    assert out.logprob == pytest.approx(math.log(mass), rel=1e-9)


def test_an_impossible_text_ends_at_once_with_a_bound_of_zero():
    model = EnumerableModel(seed=0, depth=2)  # its texts have at most two tokens
    gen = constrained.Generator(model, FiniteAutomaton({b"abc"}, model.vocabulary), sampler="cars")
    with pytest.raises(BudgetExhausted, match=r"at most 0\b") as caught:
        gen("", seed=0)
    assert caught.value.diagnostics["upper"] == 0.0
    assert caught.value.diagnostics["attempts"] < 20


@pytest.mark.parametrize("name", ["cars", "rejection", "asap"])
def test_settings_that_would_change_the_distribution_are_refused(name):
    _, gen = generator(name)
    for wrong in ({"temperature": 0}, {"temperature": 1.0, "top_p": 0.9}, {"top_k": 3}):
        with pytest.raises(InvalidArgument):
            gen("", **wrong)
    with pytest.raises(InvalidArgument, match="pass a whole number >= 1"):
        CARS(attempts=0)


# ---------------------------------------------------------------- memory


def test_tries_are_remembered_saved_and_loaded(tmp_path):
    model = EnumerableModel(seed=1)
    automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)
    tries = Tries()
    gen = constrained.Generator(model, automaton, sampler=CARS(tries=tries))
    first = gen.sample("", 30, seed=1)
    second = gen.sample("", 30, seed=2)
    assert len(tries) == 1
    assert second.attempts < first.attempts
    gen.sample("", 3, seed=1, temperature=0.5)
    gen.sample("", 3, seed=1, max_tokens=3)
    assert len(tries) == 3  # other settings, other distributions
    tries.save(tmp_path / "tries.npz")
    for copy in (Tries.load(tmp_path / "tries.npz"), pickle.loads(pickle.dumps(tries))):
        again = constrained.Generator(model, automaton, sampler=CARS(tries=copy)).sample("", 30, seed=3)
        here = constrained.Generator(
            model, automaton, sampler=CARS(tries=pickle.loads(pickle.dumps(tries)))
        ).sample("", 30, seed=3)
        assert [out.text for out in again] == [out.text for out in here]
        assert again.attempts == here.attempts


def test_models_and_prompts_do_not_share_a_trie():
    tries = Tries()
    for seed in (1, 2):
        model = EnumerableModel(seed=seed)
        automaton = FiniteAutomaton(LANGUAGE, model.vocabulary)
        constrained.Generator(model, automaton, sampler=CARS(tries=tries)).sample("", 3, seed=1)
    assert len(tries) == 2


def test_a_node_takes_bytes_and_not_a_row():
    trie = taught(EnumerableModel(seed=1), 200)
    assert len(trie) > 8
    assert trie.bytes <= 48 * len(trie)


def test_damaged_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        Tries.load(tmp_path / "none")
    tries = Tries()
    tries._tries["x"] = taught(EnumerableModel(seed=1), 20)
    path = tmp_path / "tries"
    tries.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidArgument, match="does not contain tries"):
        Tries.load(path)
    columns = tries._tries["x"].columns()
    for name, wrong in (("parent", 5), ("sibling", 10**6), ("child", 0), ("log_theta", 7.0)):
        broken = {key: value.copy() for key, value in columns.items()}
        broken[name][1] = wrong
        with pytest.raises(InvalidArgument, match="damaged"):
            Trie.of(broken)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(InvalidArgument, match="does not contain tries"):
        Tries.load(tmp_path / "other.npz")
