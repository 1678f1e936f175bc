"""Passes through a trace have the logits of the model, bit for bit; a model that a trace does not fit is read as before."""

from __future__ import annotations

import functools
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import constrained
from constrained.models import load, traced_pass
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.traced_pass import TRACE_AFTER
from tests.support import families
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


@pytest.fixture(autouse=True)
def any_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a trace may look slow."""
    monkeypatch.setattr(traced_pass, "FASTER", 100.0)


@functools.cache
def unchanged_pair() -> tuple[HuggingFaceModel, HuggingFaceModel]:
    """For tests that change nothing."""
    return pair()


def pair() -> tuple[HuggingFaceModel, HuggingFaceModel]:
    """One model read through a trace, and as it is."""
    traced, plain = (
        load(random_llama(num_key_value_heads=4), small_bpe_tokenizer(), engine=engine)
        for engine in ("auto", "eager")
    )
    assert isinstance(traced, HuggingFaceModel)
    assert isinstance(plain, HuggingFaceModel)
    assert traced.traces is not None
    assert traced.capabilities.no_trees is None
    traced.traces.make()
    assert traced.traces.active, traced.traces.refusal
    assert plain.traces is None
    return traced, plain


def test_trees_and_tokens_have_the_logits_of_the_model() -> None:
    rng = random.Random(0)
    models = unchanged_pair()
    caches = [model.cache(3) for model in models]
    for step in range(12):
        rows = 3 if step < 8 else 1
        count = 1 if step % 3 == 0 else rng.choice([2, 5, 30])
        tokens = [
            [rng.randrange(1, 300) for _ in range(count + (5 + row) * (step == 0))] for row in range(rows)
        ]
        parents = [[-1, *(rng.randrange(i) for i in range(1, len(ids)))] for ids in tokens]
        found = []
        for model, cache in zip(models, caches, strict=True):
            if count == 1 and step:
                found.append([model.forward(tokens, cache)])
                continue
            found.append(model.forward_trees(tokens, parents, [0] * rows, cache))
            cache.keep_paths(list(range(rows)), [[0]] * rows)
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
        if step == 7:
            for cache in caches:
                cache.keep([1])


def test_hooks_of_the_model_see_traced_passes() -> None:
    model, _ = unchanged_pair()
    seen: list[Any] = []
    handle = model.model.register_forward_hook(
        lambda module, args, outputs: seen.append(outputs.logits.shape)
    )
    cache = model.cache(1)
    model.forward([[1, 2]], cache)
    model.forward([[3]], cache)
    handle.remove()
    model.forward([[4]], cache)
    assert len(seen) == 2


@pytest.mark.parametrize("change", ["weight", "module", "hook", "training"])
def test_a_changed_model_is_not_read_through_its_old_trace(change: str) -> None:
    model, _ = pair()
    cache = model.cache(1)
    model.forward([[1, 2]], cache)
    before = model.forward([[3]], cache.fork([0]))
    layer = model.model.model.layers[0].mlp
    if change == "weight":
        layer.up_proj.weight = torch.nn.Parameter(layer.up_proj.weight * 2)
    elif change == "module":
        layer.up_proj = torch.nn.Linear(layer.up_proj.in_features, layer.up_proj.out_features, bias=False)
    elif change == "hook":
        layer.register_forward_hook(lambda module, args, outputs: outputs * 2)
    else:
        model.model.train()
    after = model.forward([[3]], cache.fork([0]))
    assert model.traces is not None
    assert not model.traces.active
    assert "changed" in str(model.traces.refusal)
    assert change == "training" or not np.array_equal(before, after)


def test_weights_that_change_in_place_count() -> None:
    model, plain = pair()
    for one in (model, plain):
        with torch.no_grad():
            one.model.model.layers[0].mlp.up_proj.weight.mul_(2)
    caches = [one.cache(1) for one in (model, plain)]
    found = [
        one.forward_trees([[1, 2, 3]], [[-1, 0, 0]], [0], cache)[0]
        for one, cache in zip((model, plain), caches, strict=True)
    ]
    np.testing.assert_array_equal(*found)


def test_a_trace_is_made_when_passes_have_taken_a_while() -> None:
    model, _ = unchanged_pair()
    model = pickle.loads(pickle.dumps(model))
    assert model.capabilities.no_trees is None
    assert model.traces is not None
    assert not model.traces.active
    inputs = {"input_ids": torch.ones(1, 1, dtype=torch.long), "position_ids": torch.zeros(1, 1)}
    made: list[bool] = []
    model.traces.make = lambda: made.append(True)  # type: ignore[method-assign]
    cache = model.cache(1)
    model.forward([[1]], cache)
    inputs["past_key_values"] = cache._cache  # type: ignore[attr-defined]
    for _ in range(100):
        model.traces.spent(inputs, TRACE_AFTER / 90)
    assert made
    made.clear()
    with TorchDispatchMode():  # as a counter of operations
        model.traces.spent(inputs, TRACE_AFTER)
    assert not made
    model.traces.spent(inputs, 0.0)
    assert made
    other = load(random_llama(), small_bpe_tokenizer())
    assert isinstance(other, HuggingFaceModel)
    assert other.capabilities
    assert other.traces is not None
    other.traces.make = lambda: pytest.fail("passes that compute for long")  # type: ignore[method-assign]
    for _ in range(10):
        other.traces.spent(inputs, 1.0)


def test_heads_that_share_keys_are_read_as_before() -> None:
    """Their attention takes another way for one token than for several: the trace has one of them."""
    model = load(random_llama(), small_bpe_tokenizer())
    assert isinstance(model, HuggingFaceModel)
    assert model.capabilities
    assert model.traces is not None
    model.traces.make()
    assert not model.traces.active
    assert "bit for bit" in str(model.traces.refusal)


def test_rotary_positions_that_depend_on_the_length_are_read_as_before() -> None:
    """A trace would keep the frequencies of the short texts that it was made with."""
    rotary = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    model = load(random_llama(num_key_value_heads=4, rope_parameters=rotary), small_bpe_tokenizer())
    assert isinstance(model, HuggingFaceModel)
    assert model.traces is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, family in families.FAMILIES.items() if family.way == "trees"]
)
def test_every_family_has_its_own_logits(name: str) -> None:
    family = families.FAMILIES[name]
    made = replace(family, settings=family.settings | {"num_key_value_heads": 4}).make()
    model = HuggingFaceModel.from_vocabulary(made, families.vocabulary())
    assert model.capabilities
    if model.traces is None:
        return
    model.traces.make()
    rng, caches, found = random.Random(0), [model.cache(1), model.cache(1)], []
    plan = [[rng.randrange(1, 60) for _ in range(count)] for count in (5, 1, 9, 30, 1, 2)]
    for cache in caches:
        found.append([])
        for tokens in plan:
            parents = [-1, *(max(0, i - 2) for i in range(1, len(tokens)))]
            found[-1].append(model.forward_trees([tokens], [parents], [0], cache)[0])
            cache.keep_paths([0], [[0]])
        model.traces._traced = None
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_texts_are_the_same() -> None:
    texts = []
    for model in unchanged_pair():
        gen = constrained.Generator(model, constrained.regex("[a-z ]{10,40}"), speculation="auto")
        texts.append([gen("x", max_tokens=30, seed=seed, temperature=1.0).tokens for seed in range(4)])
    assert texts[0] == texts[1]
