"""What samplers say about P(L) and about themselves, against enumeration: estimates, bounds, kept tries, seeds."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import constrained
from constrained import AWRS, CARS, MCMC, SMC, ASAp, Tries
from constrained.errors import BudgetExhausted, InvalidArgument
from constrained.sampling.randomness import PhiloxRandomness
from tests.exactness.enumerate import TableModel, random_tables
from tests.exactness.goodness_of_fit import fit

LETTERS = (b"a", b"b", b"c")
LANGUAGE = {b"ab", b"abc", b"ba", b"bbbb", b"cab", b"ccc", b"cccc"}


def texts_of(language):
    return sorted(text.decode() for text in language)


def rare() -> tuple[TableModel, set[bytes]]:
    """A language that the model nearly always leaves, over a token or the end: P(L) is some 1e-5."""
    tables = random_tables(3, 4)

    def distribution(completion):
        return tables(completion) if len(completion) >= 5 else [0.05, 0.03, 0.8999, 0.0201]

    language = {bytes(x) for n in (2, 5) for x in itertools.product(b"ab", repeat=n)} - {b"aa"}
    return TableModel(LETTERS, distribution), language


@pytest.mark.parametrize("texts", [1, 10, pytest.param(100, marks=pytest.mark.slow)])
def test_evidence_of_cars_is_inside_its_certain_bounds_and_its_error_covers(texts):
    model, language = rare()
    mass = math.fsum(model.mass(language).values())
    assert 1e-5 < mass < 1e-2
    gen = constrained.Generator(model, constrained.choice(texts_of(language)), sampler="cars")
    ratios, far = [], 0
    for seed in range(12):
        drawn = gen.sample("", texts, seed=seed)
        low, high = drawn.bounds
        assert low * (1 - 1e-9) <= mass <= high * (1 + 1e-9)
        if texts == 1:  # a single success says nothing but the bounds
            assert drawn.log_evidence is drawn.log_evidence_error is None
            continue
        assert low * (1 - 1e-9) <= math.exp(drawn.log_evidence) <= high * (1 + 1e-9)
        ratios.append(math.exp(drawn.log_evidence) / mass)
        far += abs(drawn.log_evidence - math.log(mass)) > 3 * drawn.log_evidence_error
    assert far <= 1
    if texts > 1:
        assert 0.5 < np.median(ratios) < 1.5
        assert abs(np.mean(ratios) - 1) < 0.25


def test_a_text_below_every_float_can_be_drawn():
    """40 tokens and an end of 1e-8 each: theta is 1e-328."""
    row = [1e-8, 1e-8, 1 - 3e-8, 1e-8]
    model = TableModel(LETTERS, lambda completion: row)
    constraint = constrained.regex("a{40}|a{38}bb")
    for sampler in (CARS(attempts=10_000, parallel=1), ASAp()):
        drawn = constrained.Generator(model, constraint, sampler=sampler).sample("", 3, seed=1)
        assert {out.text for out in drawn} <= {"a" * 40, "a" * 38 + "bb"}
        assert drawn.bounds[1] > 0.0
        assert drawn.log_evidence == pytest.approx(41 * math.log(1e-8) + math.log(2), abs=1.0)
    with pytest.raises(BudgetExhausted, match=r"at most 10\^-\d\d\d") as caught:
        constrained.Generator(model, constraint, sampler=CARS(attempts=39, parallel=1))("", seed=0)
    assert caught.value.diagnostics["upper"] > 0.0


class Moving(TableModel):
    """A model whose weights can be changed in place: its fingerprint stays."""

    def __init__(self, seed: int) -> None:
        super().__init__(LETTERS, random_tables(seed, 4))

    def train(self, seed: int, least: int = 0) -> None:
        before, after = self.distribution, random_tables(seed, 4)
        self.distribution = lambda completion: (after if len(completion) >= least else before)(completion)


@pytest.mark.ci
@pytest.mark.parametrize("least", [0, 1], ids=["everywhere", "only after the first token"])
@pytest.mark.parametrize("sampler", [CARS, ASAp])
def test_kept_tries_notice_that_the_weights_have_changed(sampler, least):
    model, tries = Moving(1), Tries()
    gen = constrained.Generator(model, constrained.choice(texts_of(LANGUAGE)), sampler=sampler(tries=tries))
    gen.sample("", 100, seed=1)
    model.train(2, least)
    exact = model.mass(LANGUAGE)
    drawn = gen.sample("", 800 if sampler is CARS else 200, seed=2)
    low, high = drawn.bounds
    mass = math.fsum(exact.values())
    assert low * (1 - 1e-9) <= mass <= high * (1 + 1e-9)
    if sampler is CARS:
        assert fit(Counter(out.text.encode() for out in drawn), exact) > 1e-4
    else:
        for text, weight in drawn.posterior.items():
            assert weight == pytest.approx(exact[text.encode()] / mass, abs=0.12)


def test_kept_tries_of_the_same_model_are_kept(tmp_path):
    model, tries = Moving(1), Tries()
    gen = constrained.Generator(model, constrained.choice(texts_of(LANGUAGE)), sampler=CARS(tries=tries))
    first = gen.sample("", 50, seed=1)
    tries.save(tmp_path / "tries")
    again = constrained.Generator(
        model, constrained.choice(texts_of(LANGUAGE)), sampler=CARS(tries=Tries.load(tmp_path / "tries"))
    )
    assert again.sample("", 50, seed=1).acceptance > 1.2 * first.acceptance


@pytest.mark.slow
def test_calls_with_one_seed_and_a_kept_trie_follow_the_distribution_each():
    """The second and third call of a seed must not see the numbers that the trie was learned from."""
    tables = random_tables(4, 4)
    counts: list[Counter[bytes]] = [Counter() for _ in range(3)]
    for seed in range(3000):
        model = TableModel(LETTERS, tables)
        gen = constrained.Generator(
            model, constrained.choice(texts_of(LANGUAGE)), sampler=CARS(tries=Tries(), parallel=1)
        )
        for call in counts:
            call[gen("", seed=seed).text.encode()] += 1
    exact = TableModel(LETTERS, tables).mass(LANGUAGE)
    for call in counts:
        assert fit(call, exact) > 1e-4


def test_a_second_call_of_a_seed_has_other_random_numbers(monkeypatch):
    made: list[int] = []
    make = PhiloxRandomness.__init__

    def recorded(self, seed, sequence=0, attempt=0):
        made.append(attempt)
        make(self, seed, sequence, attempt)

    monkeypatch.setattr(PhiloxRandomness, "__init__", recorded)
    model = TableModel(LETTERS, random_tables(4, 4))
    constraint = constrained.choice(texts_of(LANGUAGE))
    kept = constrained.Generator(model, constraint, sampler=CARS(tries=Tries()))
    fresh = constrained.Generator(model, constraint, sampler="cars")
    first = [out.tokens for out in kept.sample("", 40, seed=1)]
    before = set(made)
    made.clear()
    second = [out.tokens for out in kept.sample("", 40, seed=1)]
    assert len(before) >= 40
    assert not before & set(made)
    assert first == [out.tokens for out in fresh.sample("", 40, seed=1)]
    assert first != second


@pytest.mark.parametrize("cut", ["uniform", "priority"])
def test_evidence_of_mcmc_is_unbiased_for_every_cut(cut):
    tables = random_tables(6, 3, 0.5)
    model = TableModel((b"a", b"b"), tables)
    language = {b"ab", b"abab", b"ba", b"bbb", b"aab"}
    mass = math.fsum(model.mass(language).values())
    gen = constrained.Generator(model, constrained.choice(texts_of(language)), sampler=MCMC(steps=3, cut=cut))
    drawn = [math.exp(gen.sample("", 2, seed=seed).log_evidence) for seed in range(100)]
    assert abs(np.mean(drawn) - mass) < 4 * np.std(drawn) / math.sqrt(len(drawn))


def test_ess_of_smc_is_not_above_what_its_error_says():
    model, language = rare()
    gen = constrained.Generator(
        model, constrained.choice(texts_of(language)), sampler=SMC(threshold=0.9, resampling="multinomial")
    )
    drawn = gen.sample("", 100, seed=1)
    assert drawn.log_evidence_error
    assert drawn.ess <= max(1.0, drawn.log_evidence_error**-2) + 1e-9
    local = constrained.Generator(model, constrained.choice(texts_of(language)), sampler="local")
    weights = np.array((few := local.sample("", 50, seed=1, temperature=1.0)).weights)
    assert few.ess == pytest.approx(1 / (weights**2).sum())


@pytest.mark.parametrize("sampler", ["smc", SMC(proposal=AWRS(), threshold=0.9)])
def test_smc_gives_one_text_for_a_seed_whatever_others_have_cached(sampler):
    model, language = rare()
    constraint = constrained.choice(texts_of(language))
    alone = [
        constrained.Generator(model, constraint, sampler=sampler).sample("", 20, seed=s) for s in range(5)
    ]
    warm = constrained.Generator(model, constraint, sampler="local")
    for seed in range(5):
        warm.sample("", 20, seed=seed, temperature=1.0)  # fills masks that automata share
    again = [
        constrained.Generator(model, constraint, sampler=sampler).sample("", 20, seed=s) for s in range(5)
    ]
    assert [[out.tokens for out in one] for one in alone] == [[out.tokens for out in one] for one in again]
    assert [one.log_evidence for one in alone] == [one.log_evidence for one in again]


def test_asap_under_a_predicate_throws_no_text_away():
    model = TableModel(LETTERS, random_tables(8, 4))
    language = {b"aa", b"b", b"bca"}

    def prefix_of(text: str) -> bool:
        return any(one.startswith(text.encode()) for one in language)

    predicate = constrained.predicate(prefix_ok=prefix_of, complete_ok=lambda text: text.encode() in language)
    gen = constrained.Generator(model, predicate, sampler="asap")
    first = [gen("", seed=seed, max_tokens=6).text.encode() for seed in range(30)]
    assert set(first) <= language
    drawn = gen.sample("", 150, seed=1, max_tokens=6)
    assert len(drawn) == 150
    ids = {text: [LETTERS.index(bytes([b])) for b in text] for text in language}
    exact = {}
    for text, tokens in ids.items():  # a predicate does not make the end certain
        steps = [model.distribution(tuple(tokens[:i]))[token] for i, token in enumerate([*tokens, model.end])]
        exact[text] = math.prod(steps)
    mass = math.fsum(exact.values())
    assert abs(math.exp(drawn.log_evidence) - mass) < 5 * mass * drawn.log_evidence_error + 0.02 * mass
    for text, weight in drawn.posterior.items():
        assert weight == pytest.approx(exact[text.encode()] / mass, abs=0.12)


@pytest.mark.parametrize("sampler", ["local", MCMC(steps=3), "awrs", "smc"])
def test_one_impossible_text_does_not_lose_a_set(sampler):
    """After "a" the model cannot go on as the constraint wants."""
    rows = {(): [0.5, 0.5, 0, 0], (0,): [0, 0, 0.5, 0.5], (1,): [0.25, 0.25, 0.25, 0.25]}
    model = TableModel(LETTERS, lambda completion: rows.get(completion, [0.25] * 4))
    gen = constrained.Generator(model, constrained.choice(["ab", "ba", "bc"]), sampler=sampler)
    drawn = gen.sample("", 40, seed=1, temperature=1.0)
    assert {out.text for out in drawn} == {"ba", "bc"}
    assert math.exp(drawn.log_evidence) == pytest.approx(0.0625, abs=0.04)


def test_small_settings_say_what_is_wrong_with_them():
    model = TableModel(LETTERS, random_tables(8, 4))
    gen = constrained.Generator(model, constrained.choice(["a", "b"]), sampler="cars")
    with pytest.raises(InvalidArgument, match="temperature is 1e-320"):
        gen("", temperature=1e-320)
    assert gen("", seed=1, top_p=1.0, min_p=0.0).distribution == "conditional"
    for everything in (len(LETTERS) + 1, 10**9, 10**400, np.int64(10**9)):
        assert gen("", seed=1, top_k=everything).distribution == "conditional"
    with pytest.raises(InvalidArgument, match="top_k, top_p and min_p cannot be used"):
        gen("", seed=1, top_k=len(LETTERS))
    local = constrained.Generator(model, constrained.choice(["a", "b"]), sampler="local")
    assert local("", seed=1, temperature=1.0, top_p=1.0).distribution == "local"
