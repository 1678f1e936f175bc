"""Random little transformers models, made in the process."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from constrained.models import LanguageModel, load
from tests.support.tokenizers_fixtures import small_bpe_tokenizer


def seeded(make: Any, seed: int = 0) -> Any:
    """Builds a model with fixed weights, and leaves the global generator as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make()


def random_llama(*, size: int | None = None, attention: str = "sdpa", **config: Any) -> Any:
    """A LlamaForCausalLM of two layers, with grouped-query attention and lively logits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: dict[str, Any] = {
        "vocab_size": size or len(small_bpe_tokenizer()),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.4,
        "max_position_embeddings": 512,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    made = LlamaConfig(attn_implementation=attention, **settings | config)
    return seeded(lambda: LlamaForCausalLM(made))


@cache
def llama() -> LanguageModel:
    """The random model over the small byte-level vocabulary, without a chat template."""
    return load(random_llama(), small_bpe_tokenizer())
