"""In 16 bits, rounding does not switch draft trees off, and a wrong mask does.

On a GPU a pass with a mask runs another attention kernel than one without, and rounds differently; on a CPU both run the same.
So the noise is put in: each output of attention under a mask is off by one or two roundings of bfloat16.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional

from constrained.models import load, slab_cache
from constrained.models.hugging_face import HuggingFaceModel
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_vocabulary

MODELS = {
    "bundled": lambda: copy.deepcopy(load().model),
    "16 layers": lambda: random_llama(num_hidden_layers=16, hidden_size=64, initializer_range=0.16),
    "16 layers, large weights": lambda: random_llama(
        num_hidden_layers=16, hidden_size=64, initializer_range=0.48
    ),
    "32 layers": lambda: random_llama(num_hidden_layers=32, hidden_size=64, initializer_range=0.16),
    "32 layers, large weights": lambda: random_llama(
        num_hidden_layers=32, hidden_size=64, initializer_range=0.48
    ),
}
MAIN = ("bundled", "16 layers")
EACH = pytest.mark.parametrize(
    "name", [name if name in MAIN else pytest.param(name, marks=pytest.mark.ci) for name in MODELS]
)


def model_of(name: str, *, force_trees: bool = False) -> HuggingFaceModel:
    vocabulary = load().vocabulary if name == "bundled" else small_bpe_vocabulary()
    weights = MODELS[name]().to(torch.bfloat16)
    return HuggingFaceModel(weights, vocabulary, force_trees=force_trees)


@pytest.mark.ci
@EACH
@pytest.mark.parametrize("roundings", [1, 2])
def test_rounding_leaves_trees_on(name, roundings, monkeypatch):
    if name == "32 layers, large weights":
        roundings = 1  # two are as much as bfloat16 is off from float32 there, and are refused
    attention = torch.nn.functional.scaled_dot_product_attention
    noise = torch.Generator().manual_seed(0)

    def noisy(*args: Any, attn_mask: Any = None, **named: Any) -> Any:
        made = attention(*args, attn_mask=attn_mask, **named)
        if attn_mask is None:
            return made
        factors = 1 + roundings * 2**-9 * torch.randn(made.shape, generator=noise)
        return (made.float() * factors).to(made.dtype)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noisy)
    found = model_of(name).capabilities
    assert found.no_trees is None
    assert 0 < found.tree_error <= found.tree_tolerance


def sees_siblings(seen: np.ndarray) -> None:
    seen |= np.tri(len(seen), dtype=np.bool_)


def loses_an_ancestor(seen: np.ndarray) -> None:
    """The last token that has a parent does not see it."""
    if seen[:, :-1].any():
        row = max(row for row in range(len(seen)) if seen[row, :row].any())
        seen[row, np.flatnonzero(seen[row, :row])[-1]] = False


@pytest.mark.ci
@EACH
@pytest.mark.parametrize("damage", [sees_siblings, loses_an_ancestor])
def test_a_wrong_mask_switches_trees_off(name, damage, monkeypatch):
    right = slab_cache.ancestor_words

    def wrong(parents: Any, width: int) -> Any:
        depths, words = right(parents, width)
        seen = (words >> np.arange(width) & 1).astype(np.bool_)  # one word is enough for the trees of a trial
        for tree in seen:
            damage(tree)
        return depths, (seen.astype(np.int64) << np.arange(width)).sum(axis=2, keepdims=True)

    monkeypatch.setattr(slab_cache, "ancestor_words", wrong)
    model = model_of(name)
    with pytest.warns(UserWarning, match="off by .* of which rounding explains .*force_trees"):
        assert model.no_trees is not None
    forced = model_of(name, force_trees=True).capabilities
    assert forced.no_trees is None
    assert forced.tree_error > 2 * forced.tree_tolerance
