"""A model that has a cache is never read without one unless the caller allows it: each token would cost the whole sequence."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from transformers import LlamaForCausalLM

import constrained
from constrained.errors import ModelError
from constrained.models.capabilities import cache_argument
from constrained.models.sequential_cache import ForwardMode
from tests.support.tiny_models import random_llama
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


class StoreLlama(LlamaForCausalLM):
    """A Llama whose cache goes by another name, as every model's did when transformers 5.24 renamed it."""

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, store: Any = None,
        use_cache: Any = None, logits_to_keep: Any = 0,
    ) -> Any:  # fmt: skip
        name = cache_argument(random_llama())
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **{str(name): store},
            use_cache=use_cache, logits_to_keep=logits_to_keep,
        )  # fmt: skip


class ForgetfulLlama(LlamaForCausalLM):
    """A Llama that refuses the caches it is given, and makes its own."""

    def forward(self, *args: Any, **inputs: Any) -> Any:
        if inputs.get(str(cache_argument(random_llama()))) is not None:
            raise TypeError("caches of this kind are not taken")
        return super().forward(*args, **inputs)

    forward.__wrapped__ = LlamaForCausalLM.forward  # type: ignore[attr-defined]


def of_class(kind: type[LlamaForCausalLM]) -> Any:
    plain = random_llama()
    model = kind(plain.config)
    model.load_state_dict(plain.state_dict())
    return model.eval()


def test_a_cache_under_an_unknown_name_is_an_error_that_names_versions_and_the_way_out() -> None:
    with pytest.raises(
        ModelError, match=r"StoreLlama cannot be used.*take none as any of cache, .*transformers 5"
    ) as caught:
        constrained.load(of_class(StoreLlama), small_bpe_tokenizer())
    assert "allow_slow=True" in str(caught.value)


def test_a_cache_that_a_model_refuses_is_an_error() -> None:
    model = constrained.load(of_class(ForgetfulLlama), small_bpe_tokenizer())
    with (
        pytest.warns(UserWarning, match="read without trees"),
        pytest.raises(ModelError, match="TypeError: caches of this kind are not taken"),
    ):
        _ = model.capabilities


@pytest.mark.parametrize("kind", [StoreLlama, ForgetfulLlama])
def test_where_the_caller_allows_it_the_texts_are_the_same(kind: type[LlamaForCausalLM]) -> None:
    letters = constrained.regex("[ab]{6}")
    model = constrained.load(of_class(kind), small_bpe_tokenizer(), allow_slow=True)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        slow = constrained.Generator(model, letters)("a", seed=1)
    assert model.capabilities.mode is ForwardMode.WHOLE
    assert any("the whole sequence for each token" in str(one.message) for one in warned)
    plain = constrained.load(random_llama(), small_bpe_tokenizer())
    assert slow.text == constrained.Generator(plain, letters)("a", seed=1).text
