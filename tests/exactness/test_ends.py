"""The end of a completion counts as the model gives it: every sampler against enumeration by independent code."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

import constrained
from constrained import AWRS, CARS, MCMC, SMC, ASAp, Local, Rejection, Speculation
from constrained.decoding.particle_batch import CachedParticleBatch
from constrained.decoding.sequence import DecodingParams
from constrained.errors import InvalidArgument
from constrained.sampling import LogitsWarper
from tests.exactness.end_probabilities import (
    PATTERN,
    TEXTS,
    Enumeration,
    Odometer,
    TwoLayerModel,
)
from tests.exactness.goodness_of_fit import fisher, fit
from tests.server.serving import MODEL, served

TOKENWISE = [Local(), AWRS(), AWRS(cached=False, checks=2), Local(weights=False, ends="model")]
SAMPLERS = [*TOKENWISE, CARS(), Rejection(), ASAp(), MCMC(steps=2), SMC(particles=4)]
CERTAIN = [Local(ends="certain"), AWRS(ends="certain"), CARS(ends="certain"), Rejection(ends="certain"),
           ASAp(ends="certain"), MCMC(steps=2, ends="certain"), SMC(particles=4, ends="certain")]  # fmt: skip


def as_predicate(texts=TEXTS):
    """The language, as a predicate that is asked about everything."""
    return constrained.predicate(
        prefix_ok=lambda text: any(one.startswith(text) for one in texts),
        complete_ok=lambda text: text in texts,
    )


def constraint_of(kind):
    return constrained.regex(PATTERN) if kind == "grammar" else as_predicate()


@pytest.mark.parametrize("kind", ["grammar", "predicate"])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_logprob_is_of_the_completion_with_its_end(sampler, kind):
    model = TwoLayerModel(1)
    exact = Enumeration(model)
    gen = constrained.Generator(model, constraint_of(kind), sampler=sampler)
    for seed in range(8):
        out = gen("", seed=seed, temperature=1.0)
        assert out.logprob == pytest.approx(math.log(exact.p[out.tokens]), abs=1e-9)
        assert out.finish in ("complete", "end")
    assert gen.sample("", 3, seed=1, temperature=1.0)[0].finish in ("complete", "end")


@pytest.mark.parametrize("sampler", CERTAIN, ids=repr)
def test_certain_ends_have_no_probability_and_no_pass(sampler):
    model = TwoLayerModel(1)
    exact = Enumeration(model)
    gen = constrained.Generator(model, constrained.regex(PATTERN), sampler=sampler)
    for seed in range(8):
        out = gen("", seed=seed, temperature=1.0)
        assert out.logprob == pytest.approx(math.log(exact.certain[out.tokens]), abs=1e-9)


def test_without_weights_an_end_that_must_come_is_not_in_logprob():
    model = TwoLayerModel(2)
    exact, saved = Enumeration(model), 0
    with_ends = constrained.Generator(model, constrained.regex(PATTERN), sampler="local")
    without = constrained.Generator(model, constrained.regex(PATTERN), sampler=Local(weights=False))
    for seed in range(12):
        one, other = (gen("", seed=seed, temperature=1.0) for gen in (with_ends, without))
        assert one.tokens == other.tokens
        assert other.logprob == pytest.approx(math.log(exact.certain[other.tokens]), abs=1e-9)
        assert one.stats.forwards - other.stats.forwards == (one.finish == "complete")
        saved += one.finish == "complete"
    assert saved


@pytest.mark.parametrize("limit", [1, 2, 3, 9])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_weight_of_local_masking_is_p_over_q(limit, temperature):
    model = TwoLayerModel(3)
    exact = Enumeration(model, limit=limit, temperature=temperature)
    assert math.fsum(exact.q.values()) == pytest.approx(1.0)
    gen = constrained.Generator(model, constrained.regex(PATTERN), sampler="local")
    for seed in range(20):
        out = gen("", seed=seed, temperature=temperature, max_tokens=limit)
        assert out.log_weight == pytest.approx(math.log(exact.p[out.tokens] / exact.q[out.tokens]), abs=1e-9)


def outcomes(model, constraint, limit, sampler, play):
    """(chance, what `play` returns) for every outcome of every random choice."""
    gen = constrained.Generator(model, constraint, sampler=sampler)
    odometer = Odometer()
    params = DecodingParams(gen.automaton, LogitsWarper(1.0), sampler.certain_ends)
    while True:
        outcome = play(CachedParticleBatch(model, params, model.encode(""), limit, lambda attempt: odometer))
        yield odometer.chance, outcome
        if not odometer.turn():
            return


SHORT = ["a", "b", "ba"]  # the end must come after "a", and at the limit after "ba"
FEW = (b"a", b"b")  # so that all orders of visits can be enumerated


@pytest.mark.parametrize("kind", ["grammar", "predicate"])
@pytest.mark.parametrize(
    "sampler",
    # `AWRS(cached=True)` visits fewer tokens once a mask is cached, so its outcomes change while they are enumerated.
    [Local(), AWRS(cached=False, checks=2, patience=2), AWRS(cached=False, when_exhausted="drop", patience=2),
     ASAp(), SMC(threshold=0.0, proposal=Local()), SMC(threshold=1.0, proposal=Local(), resampling="multinomial")],
    ids=repr,
)  # fmt: skip
def test_weights_are_unbiased_for_every_completion(sampler, kind):
    model = TwoLayerModel(4, FEW)
    exact = Enumeration(model, SHORT, limit=2)
    constraint = constrained.choice(SHORT) if kind == "grammar" else as_predicate(SHORT)
    count = 2 if isinstance(sampler, SMC) else 1
    mean, whole = defaultdict(float), 0.0
    for chance, drawn in outcomes(model, constraint, 2, sampler, lambda batch: sampler.draw(batch, count)):
        whole += chance
        for text in drawn.texts:
            if text.finish != "dead":
                mean[tuple(text.tokens)] += chance * math.exp(text.log_weight) / count
    assert whole == pytest.approx(1.0)
    assert set(mean) == set(exact.p)
    for ids, p in exact.p.items():
        assert mean[ids] == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("kind", ["grammar", "predicate"])
@pytest.mark.parametrize("sampler", [CARS(attempts=1), Rejection(attempts=1)], ids=repr)
def test_an_attempt_is_accepted_with_the_probability_of_the_completion(sampler, kind):
    model = TwoLayerModel(4, FEW)
    exact = Enumeration(model, SHORT, limit=2)
    constraint = constrained.choice(SHORT) if kind == "grammar" else as_predicate(SHORT)

    def attempt(batch):
        try:
            return tuple(sampler.draw(batch, 1).texts[0].tokens)
        except constrained.BudgetExhausted:
            return None

    found = defaultdict(float)
    for chance, ids in outcomes(model, constraint, 2, sampler, attempt):
        found[ids] += chance
    assert found.pop(None) == pytest.approx(1.0 - exact.mass)
    assert found == pytest.approx(exact.p)


@pytest.mark.parametrize("sampler", [Local(), AWRS(), CARS(), SMC(particles=4), MCMC(steps=2)], ids=repr)
def test_draft_tokens_and_batches_change_nothing(sampler):
    model = TwoLayerModel(5)
    constraint = constrained.regex(PATTERN)
    plain = constrained.Generator(model, constraint, sampler=sampler)
    drafting = constrained.Generator(
        model, constraint, sampler=sampler, speculation=Speculation(nodes=8, adapts=False)
    )
    alone = [plain("", seed=7, sequence=i, temperature=1.0) for i in range(12)]
    for outs in (
        [drafting("", seed=7, sequence=i, temperature=1.0) for i in range(12)],
        plain.batch([""] * 12, seed=7, temperature=1.0),
        drafting.batch([""] * 12, seed=7, temperature=1.0),
        [list(drafting.stream("", seed=7, sequence=i, temperature=1.0))[-1].output for i in range(12)],
    ):
        for one, other in zip(alone, outs, strict=True):
            assert (one.tokens, one.finish, one.logprob, one.log_weight) == (
                other.tokens, other.finish, other.logprob, other.log_weight,
            )  # fmt: skip


@pytest.mark.parametrize("threshold", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("potential", [None, lambda text, finished: 0.5 * text.count(b"a")])
def test_an_end_that_must_come_resamples_no_particle(threshold, potential):
    """The particles are those of certain ends; only then their weights are multiplied by the ends."""
    model = TwoLayerModel(8)
    exact = Enumeration(model)

    def drawn(ends):
        sampler = SMC(proposal=Local(), threshold=threshold, potential=potential, ends=ends)
        return constrained.Generator(model, constrained.regex(PATTERN), sampler=sampler).sample(
            "", 30, seed=3
        )

    paired = list(zip(drawn("model"), drawn("certain"), strict=True))
    assert len(paired) == 30
    for out, certain in paired:
        assert out.tokens == certain.tokens
        end = math.log(exact.p[out.tokens] / exact.certain[out.tokens])
        assert out.log_weight - certain.log_weight == pytest.approx(end, abs=1e-9)


def test_without_weights_the_server_and_batches_spend_no_pass_on_an_end_that_must_come():
    model = TwoLayerModel(2, [bytes([i]) for i in range(256)])
    with_ends = constrained.Generator(model, constrained.regex(PATTERN), sampler="local")
    without = constrained.Generator(model, constrained.regex(PATTERN), sampler=Local(weights=False))
    saved = 0
    for one, other in zip(
        *(gen.batch([""] * 12, seed=5, temperature=1.0) for gen in (with_ends, without)), strict=True
    ):
        assert (one.tokens, one.finish) == (other.tokens, other.finish)
        assert one.stats.forwards - other.stats.forwards == (one.finish == "complete")
        saved += one.finish == "complete"
    assert 0 < saved < 12
    with served(model, speculation=None) as server:
        for seed in range(8):
            alone = without("", seed=seed, temperature=1.0)
            reads = model.reads
            answer = server.post(
                "/v1/completions",
                {"model": MODEL, "prompt": "", "seed": seed, "temperature": 1.0, "max_tokens": 9,
                 "structured_outputs": {"regex": PATTERN}},
            )  # fmt: skip
            assert answer.json()["choices"][0]["text"] == alone.text
            assert model.reads - reads == alone.stats.forwards


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_within_a_limit_the_evidence_is_of_what_is_complete_in_time(limit):
    model = TwoLayerModel(6)
    exact = Enumeration(model, limit=limit)
    gen = constrained.Generator(model, constrained.regex(PATTERN), sampler="cars")
    low, high = gen.sample("", 400, seed=0, max_tokens=limit).bounds
    assert low <= exact.mass * (1 + 1e-9)
    assert exact.mass <= high * (1 + 1e-9) <= 1.01 * exact.mass


def test_an_end_that_the_model_rules_out_weighs_nothing():
    model = TwoLayerModel(7)
    read = model.logits
    model.logits = lambda ids: np.append(read(ids)[:-2], [-np.inf] * 2)
    for sampler in (Local(), AWRS()):
        out = constrained.Generator(model, constrained.regex("acad"), sampler=sampler)("", seed=1)
        assert (out.text, out.finish, out.logprob, out.log_weight) == (
            "acad",
            "complete",
            -math.inf,
            -math.inf,
        )
    with pytest.raises(constrained.BudgetExhausted):
        constrained.Generator(model, constrained.regex("acad"), sampler=CARS(attempts=3))("", seed=1)


@pytest.mark.parametrize("make", [Local, AWRS, CARS, Rejection, ASAp, MCMC, SMC])
def test_the_option_is_checked(make):
    for bad in ("sure", True, 1, ["model"]):
        with pytest.raises(InvalidArgument, match="ends is"):
            make(ends=bad)
    for make in (MCMC, SMC):
        with pytest.raises(InvalidArgument, match="certain in the proposal"):
            make(proposal=Local(ends="certain"))
        assert make(proposal=Local(ends="certain"), ends="certain").certain_ends


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grammar", "predicate"])
def test_cars_draws_the_models_distribution_on_ten_models(kind):
    """All p-values together; the same draws do not fit the distribution with certain ends, nor the other way round."""
    fits, wrong = [], []
    for seed in range(10):
        model = TwoLayerModel(100 + seed)
        exact = Enumeration(model)
        gen = constrained.Generator(model, constraint_of(kind), sampler="cars")
        counts = Counter(out.text for out in gen.sample("", 1000, seed=seed))
        fits.append(fit(counts, exact.conditional(exact.p)))
        wrong.append(fit(counts, exact.conditional(exact.certain)))
    assert fisher(fits) > 0.001, fits
    assert fisher(wrong) < 1e-9
