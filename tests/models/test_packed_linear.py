"""Weights that are packed: the same logits and files; when they are float16 numbers; what undoes it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

import constrained
from constrained.errors import InvalidArgument, ModelError
from constrained.models.hugging_face import HuggingFaceModel
from constrained.models.packed_linear import PackedLinear, _dtypes, _Float16, no_packing, pack, unpack
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


@pytest.fixture
def model() -> Any:
    """A model of two layers with random weights, some of whose linear layers are large enough."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1536, hidden_size=256, intermediate_size=1024, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, eos_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def bundled() -> HuggingFaceModel:
    loaded = constrained.load()
    assert isinstance(loaded, HuggingFaceModel)
    return loaded


def packed_names(model: nn.Module) -> list[str]:
    return [
        name.rpartition(".")[2] for name, layer in model.named_modules() if isinstance(layer, PackedLinear)
    ]


def logits(model: Any, width: int) -> torch.Tensor:
    tokens = torch.randint(1536, (2, width), generator=torch.Generator().manual_seed(width))
    with torch.inference_mode():
        result: torch.Tensor = model(tokens).logits
    return result


def round_weights(model: Any, dtype: torch.dtype) -> None:
    for weight in model.parameters():
        weight.data = weight.data.to(dtype).to(weight.dtype)


def float16_names(model: nn.Module) -> list[str]:
    return [
        name.rpartition(".")[2]
        for name, layer in model.named_modules()
        if isinstance(layer, PackedLinear) and isinstance(layer._held, _Float16)
    ]


ALL_LARGE = 2 * ["q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] + ["lm_head"]


@pytest.mark.parametrize("dtype", _dtypes())
def test_the_logits_are_those_of_the_layers_in_rows_up_to_rounding(model: Any, dtype: torch.dtype) -> None:
    model.to(dtype)
    before = [logits(model, width) for width in (1, 2, 5, 33)]
    pack(model)
    assert packed_names(model) == ALL_LARGE
    assert float16_names(model) == []
    for rows, blocks in zip(before, [logits(model, width) for width in (1, 2, 5, 33)], strict=True):
        torch.testing.assert_close(blocks, rows, rtol=0, atol=2e-5 if dtype == torch.float32 else 0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_a_16_bit_checkpoint_are_held_as_float16_without_a_loss(
    model: Any, dtype: torch.dtype
) -> None:
    model.model.layers[0].mlp.up_proj.weight.data *= 3e5  # beyond float16, and tiny beside it
    model.model.layers[0].mlp.up_proj.weight.data[:9] *= 1e-6
    if dtype == torch.float16:
        model.model.layers[0].mlp.up_proj.weight.data *= 1e-4
    model.model.layers[1].self_attn.q_proj.bias = nn.Parameter(torch.randn(256))
    round_weights(model, dtype)
    state = copy.deepcopy(model.state_dict())
    before = [logits(model, width) for width in (1, 2, 5, 33)]
    pack(model)
    assert float16_names(model) == ALL_LARGE
    for rows, packed in zip(before, [logits(model, width) for width in (1, 2, 5, 33)], strict=True):
        torch.testing.assert_close(packed, rows, rtol=2e-5, atol=2e-5)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    unpack(model)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_packed_weights_are_not_read_as_rows_by_mistake(model: Any) -> None:
    pack(model)
    assert model.model.layers[0].mlp.up_proj.weight.isnan().all()


def test_unpacked_it_has_the_same_weights_bit_by_bit(model: Any) -> None:
    before = copy.deepcopy(model.state_dict())
    count = model.num_parameters()
    pack(model)
    assert model.num_parameters() == count
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    unpack(model)
    assert not packed_names(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("dtype", _dtypes())
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_is_packed_too(model: Any, copied: Any, dtype: torch.dtype) -> None:
    round_weights(model, dtype)
    pack(model)
    other = copied(model)
    assert packed_names(other) == packed_names(model)
    assert float16_names(other) == float16_names(model)
    assert other.lm_head.weight is other.model.embed_tokens.weight
    assert torch.equal(logits(other, 3), logits(model, 3))


def test_a_model_that_is_converted_is_unpacked(model: Any) -> None:
    pack(model)
    model.to(torch.float64)
    assert not packed_names(model)
    assert logits(model, 3).dtype == torch.float64


def test_gradients_are_refused(model: Any) -> None:
    pack(model)
    with pytest.raises(ModelError, match=r"no gradients\n.*packed=False"):
        model(torch.tensor([[1, 2]]))


def test_load_packs_a_folder_but_not_the_model_of_the_caller(model: Any, tmp_path: Any) -> None:
    tokenizer = bundled().tokenizer
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded: list[Any] = [constrained.load(tmp_path, packed=packed) for packed in (None, False)]
    assert [bool(packed_names(one.model)) for one in loaded] == [True, False]
    assert loaded[0].fingerprint == loaded[1].fingerprint
    constrained.load(model, tokenizer)
    assert not packed_names(model)
    constrained.load(model, tokenizer, packed=True)
    assert packed_names(model)


def test_what_cannot_be_packed_says_why() -> None:
    assert "no linear layer of" in str(no_packing(random_llama()))
    with pytest.raises(ModelError, match="cannot be packed: it has no linear layer"):
        constrained.load(random_llama(), small_bpe_tokenizer(), packed=True)
    with pytest.raises(InvalidArgument, match="packed is 'yes'"):
        constrained.load(packed="yes")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="compiled passes"):
        constrained.load(packed=True, engine="compiled")
