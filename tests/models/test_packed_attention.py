"""What passes on a CPU leave out: copies of keys for the heads that share them, and logits that nobody reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from constrained.models import tree_attention
from constrained.models.capabilities import decoder_config
from tests.support.tiny_models import llama


@pytest.mark.parametrize("seen", [True, False], ids=["bool", "added"])
@pytest.mark.parametrize("heads", [(4, 2), (8, 1), (6, 3)])
def test_packed_attention_is_that_of_torch(heads: tuple[int, int], seen: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(2, count, length, 16, generator=generator)
        for count, length in zip((heads[0], heads[1], heads[1]), (5, 11, 11), strict=True)
    )
    mask = torch.rand(2, 1, 5, 11, generator=generator) < 0.7
    mask[..., 0] = True
    given = mask if seen else torch.zeros(mask.shape).masked_fill_(~mask, -65504.0)
    found = tree_attention.packed_attention(query, key, value, given, 0.3)
    copied = (one.repeat_interleave(heads[0] // heads[1], dim=1) for one in (key, value))
    wanted = torch.nn.functional.scaled_dot_product_attention(query, *copied, attn_mask=given, scale=0.3)
    torch.testing.assert_close(found, wanted.transpose(1, 2), atol=1e-6, rtol=1e-5)


def test_queries_without_a_mask_are_the_last_ones() -> None:
    """Gemma 4 drops queries before its last layers, and takes the mask of the whole text for none."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 9, 16, generator=generator) for heads in (4, 2, 2))
    layer = torch.nn.Module()
    layer.is_causal, layer.num_key_value_groups = True, 2  # type: ignore[assignment]
    whole, _ = tree_attention.attend(layer, query, key, value, None)
    last, _ = tree_attention.attend(layer, query[:, :, -3:], key, value, None)
    torch.testing.assert_close(last, whole[:, -3:])


def test_trees_of_a_model_on_the_cpu_are_read_so_and_single_tokens_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = []
    original = tree_attention.packed_attention

    def counted(query: torch.Tensor, *others: object) -> torch.Tensor:
        packed.append(query.shape[2])
        return original(query, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(tree_attention, "packed_attention", counted)
    model = llama()
    assert model.no_trees is None
    assert decoder_config(model.model)._attn_implementation == "constrained_tree"
    cache = model.cache(1)
    model.forward([[5, 6, 7]], cache)
    packed.clear()
    model.forward([[8]], cache)
    assert not packed
    model.forward_trees([[9, 10, 11]], [[-1, 0, 0]], [0], cache)
    assert packed == [3] * model.model.config.num_hidden_layers


def test_drafts_behind_a_prompt_cost_no_logits_of_the_prompt() -> None:
    model = llama()
    assert model.no_trees is None
    read: list[int] = []
    model.model.lm_head.register_forward_hook(lambda layer, inputs, output: read.append(inputs[0].shape[1]))
    prompt = [5 + place % 7 for place in range(40)]
    tokens, parents = [*prompt, 9, 10, 11], [*range(-1, 39), 39, 39, 40]
    (tree,) = model.forward_trees([tokens], [parents], [39], model.cache(1))
    assert read == [4]
    for node, path in enumerate(([], [9], [10], [9, 11])):
        one = model.forward([[*prompt, *path]], model.cache(1))[0]
        np.testing.assert_allclose(tree[node], one, atol=1e-5)
