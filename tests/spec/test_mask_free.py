"""Without weights `local` makes no masks: the same tokens and log-probabilities, from the few tokens that can win.

The judge is the rule itself over the whole row: the largest logit / T + noise among the allowed, in float64.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import constrained
from constrained import AWRS, CARS, MCMC, SMC, Local
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.lazy_distribution import LazyDistribution
from constrained.decoding.speculation import Speculation
from constrained.errors import InvalidArgument, ModelError
from constrained.models.logits import DeviceLogits, HostLogits, PlannedDraws
from constrained.sampling import CandidateList, Distribution, LogitsWarper, PhiloxRandomness, Position
from constrained.sampling.local import TOP_COUNT
from constrained.spec.noise import GumbelNoise
from constrained.testing import ScriptedModel
from tests.spec.speculating import facts, fresh, generator, letters, words
from tests.support.examples import examples
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

FREE, MASKED = Local(weights=False), Local(ends="certain")
PLACE = 11
seeds = st.integers(0, 2**31)


def row(seed: int, size: int) -> np.ndarray:
    """Logits in float32 with many ties and near-ties, and impossible tokens."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=size) * random.choice([0.0, 1e-7, 0.5, 4.0])
    if random.random() < 0.5:
        logits = np.round(logits * 2) / 2
    logits[random.random(size) < random.choice([0.0, 0.3])] = -np.inf
    logits[0] = 1.0
    return logits.astype(np.float32)


def keys_of(logits: np.ndarray, warp: LogitsWarper, seed: int) -> np.ndarray:
    wide = logits.astype(np.float64)
    if warp.greedy:
        return wide
    return wide / warp.temperature + GumbelNoise(seed).gumbel(PLACE, np.arange(len(logits)))


def allowed_of(kind: str, keys: np.ndarray, seed: int) -> np.ndarray:
    """What an automaton allows that means it well, or not."""
    random, ranks = np.random.default_rng(seed), np.argsort(-keys, kind="stable")
    possible = int((keys > -np.inf).sum())
    if kind == "all":
        found = np.arange(len(keys))
    elif kind == "some":
        found = np.flatnonzero(random.random(len(keys)) < 0.1)
    elif kind == "none of the leaders":
        found = ranks[TOP_COUNT:possible]
    elif kind == "only the last leader":
        found = np.append(ranks[min(TOP_COUNT, possible) - 1], ranks[possible:])
    else:
        found = random.integers(0, len(keys), 1)
    found = np.sort(found)
    return found if len(found) and (keys[found] > -np.inf).any() else np.array([0])


def on_device(rows: list[np.ndarray], draws: PlannedDraws | None = None) -> DeviceLogits:
    """Logits as a device would have them."""
    copied = [] if draws is None else [torch.from_numpy(array) for array in draws.arrays()]
    return DeviceLogits(torch.from_numpy(np.stack(rows)), draws=draws, uploaded=copied)


def positions(logits: np.ndarray, allowed: np.ndarray, warp: LogitsWarper, seed: int) -> list[Position]:
    """The place of a distribution on the host, and of one on a device."""
    temperature = warp.temperature or 0.0
    noises = [GumbelNoise(0), GumbelNoise(seed)]
    device = on_device(
        [logits[::-1].copy(), logits], PlannedDraws([0, 1], noises, [0, PLACE], [temperature] * 2, TOP_COUNT)
    )
    distributions = [
        Distribution(logits, warp),
        LazyDistribution(HostLogits([logits[None]]), 0, warp),
        LazyDistribution(device, 1, warp),
    ]
    return [
        Position(distribution, CandidateList(allowed), PhiloxRandomness(seed), warp, PLACE)
        for distribution in distributions
    ]


@settings(max_examples=examples(150))
@given(
    seeds,
    st.integers(300, 4000),
    st.sampled_from(["all", "some", "one", "none of the leaders", "only the last leader"]),
    st.sampled_from([0.0, 0.4, 1.0, 3.0]),
)
def test_the_draw_is_that_of_the_whole_row(seed, size, kind, temperature) -> None:
    logits, warp = row(seed, size), LogitsWarper(temperature)
    keys = keys_of(logits, warp, seed)
    allowed = allowed_of(kind, keys, seed)
    winner = int(allowed[np.argmax(keys[allowed])])
    masked = MASKED.propose(Position(logits, CandidateList(allowed), PhiloxRandomness(seed), warp, PLACE))
    host, read, device = (FREE.propose(one) for one in positions(logits, allowed, warp, seed))
    assert masked.token == host.token == read.token == device.token == winner
    assert masked.logprob == host.logprob == read.logprob  # to the last bit
    assert device.logprob == pytest.approx(masked.logprob, abs=1e-5)
    assert math.isnan(host.log_weight)
    assert not math.isnan(masked.log_weight)


@given(seeds, st.integers(300, 4000), st.sampled_from([0.0, 1.0]))
def test_a_device_names_no_token_as_leader_that_is_none(seed, size, temperature) -> None:
    """What it says is rounded, and near-ties are frequent here: those it cannot tell apart it leaves to the row."""
    logits, warp = row(seed, size), LogitsWarper(temperature)
    keys = keys_of(logits, warp, seed)
    *_, device = positions(logits, np.arange(size), warp, seed)
    leaders = list(device.gumbel_top_k(TOP_COUNT))
    assert leaders == np.argsort(-keys, kind="stable")[: len(leaders)].tolist()


def test_rows_stay_on_the_device_where_a_leader_is_allowed(monkeypatch) -> None:
    fetched = []
    original = DeviceLogits.row
    monkeypatch.setattr(DeviceLogits, "row", lambda self, at: fetched.append(at) or original(self, at))
    logits = np.random.default_rng(0).normal(size=4000).astype(np.float32) * 3
    keys = keys_of(logits, LogitsWarper(1.0), 5)
    ranks = np.argsort(-keys)
    for allowed, rows in ((ranks[3:], 0), (ranks[TOP_COUNT + 3 :], 1)):
        position = positions(logits, np.sort(allowed), LogitsWarper(1.0), 5)[-1]
        assert FREE.propose(position).token == allowed[0]
        assert len(set(fetched)) == rows


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_logits_that_are_no_distribution_are_refused(broken) -> None:
    logits = np.zeros(300, np.float32)
    logits[7] = broken
    for position in positions(logits, np.arange(300), LogitsWarper(1.0), 0):
        with pytest.raises(ModelError, match="not a distribution"):
            FREE.propose(position)


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "tags": {"type": "array", "items": {"enum": ["a", "bb"]}}},
    "required": ["name", "tags"],
}  # fmt: skip


@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.5])
@pytest.mark.parametrize("margin", [0.5, 5.0])  # a model that hardly wants what is allowed, and one that does
def test_texts_are_the_same_with_and_without_masks_and_drafts(temperature, margin) -> None:
    model = words(b'{"name": "bob", "tags": ["a"]}', margin)
    draft = Speculation(nodes=8, adapts=False)
    settings = {"max_tokens": 24, "temperature": temperature}
    for seed in range(2):
        runs = [
            generator(model, SCHEMA, sampler, speculation)("Bob", seed=seed, **settings)
            for sampler in (MASKED, FREE)
            for speculation in (None, draft)
        ]
        assert len({facts(one)[:3] for one in runs}) == 1
        assert not math.isnan(runs[0].log_weight)
        assert math.isnan(runs[2].log_weight)
        assert facts(runs[2]) == facts(runs[3])


class OnDevice:
    """Takes what a model reads as a device would have it."""

    def __init__(self, model) -> None:
        self.plain, self.model = model.forward_logits, model

    def __enter__(self):
        def read(tokens, trees, cache, draws=None):
            return on_device(self.plain(tokens, trees, cache)._rows, draws)

        self.model.forward_logits, self.model.plans_draws = read, True
        return self.model

    def __exit__(self, *_) -> None:
        del self.model.forward_logits, self.model.plans_draws


@pytest.mark.ci
@pytest.mark.parametrize("sampler", [MASKED, FREE, CARS(), AWRS()])
def test_texts_of_a_model_on_a_device_are_the_same(sampler) -> None:
    exact = isinstance(sampler, CARS)
    model = letters(3) if exact else words(b'{"name": "bob", "tags": ["a"]}', 12.0)
    constraint = constrained.regex("[abc]{1,6}") if exact else SCHEMA
    settings = {"max_tokens": 6 if exact else 24, "temperature": 1.0}
    for draft in (None, Speculation(nodes=8, adapts=False)):
        for seed in range(2):
            wanted = generator(model, constraint, sampler, draft)("Bob", seed=seed, **settings)
            with OnDevice(model):
                found = generator(model, constraint, sampler, draft)("Bob", seed=seed, **settings)
            assert found.tokens == wanted.tokens
            assert found.logprob == pytest.approx(wanted.logprob, abs=1e-4)


def test_no_mask_is_made_while_leaders_are_allowed(monkeypatch) -> None:
    calls: list[int] = []
    original = AutomatonCandidates.ids
    monkeypatch.setattr(
        AutomatonCandidates, "ids", property(lambda self: calls.append(0) or original.fget(self))
    )
    model = ScriptedModel(fresh(small_bpe_vocabulary()), '{"name": "bob", "tags": ["a"]}')
    out = generator(model, SCHEMA, FREE, None)("Bob", seed=0, temperature=1.0, max_tokens=60)
    free = len(calls)
    generator(model, SCHEMA, MASKED, None)("Bob", seed=0, temperature=1.0, max_tokens=60)
    assert free <= 2 < len(out.tokens) <= len(calls) - free


def test_weights_are_there_where_they_are_needed() -> None:
    model = words(b'{"name": "bob", "tags": ["a"]}')
    settings = {"max_tokens": 40, "temperature": 1.0, "seed": 3}
    wanted = generator(model, SCHEMA, Local(), None).sample("Bob", 3, **settings)
    found = generator(model, SCHEMA, FREE, None).sample("Bob", 3, **settings)
    assert [one.log_weight for one in found] == [one.log_weight for one in wanted]
    truncated = generator(model, SCHEMA, FREE, None)("Bob", top_k=3, **settings)
    assert truncated.tokens == generator(model, SCHEMA, MASKED, None)("Bob", top_k=3, **settings).tokens
    for made in (SMC, MCMC):
        with pytest.raises(InvalidArgument, match="proposal"):
            made(proposal=FREE)
    with pytest.raises(InvalidArgument, match="weights"):
        Local(weights=1)  # type: ignore[arg-type]
