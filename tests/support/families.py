"""Families of transformers' causal language models, each as a tiny model of random weights, and how they are read.

    python tests/support/families.py

writes the table into docs/speculation.md.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from constrained.models.hugging_face import HuggingFaceModel
from tests.support.finite import byte_vocabulary
from tests.support.paths import ROOT
from tests.support.tiny_models import seeded

PAGE = ROOT / "docs" / "speculation.md"
BEGIN, END = (
    "<!-- families of models: written by tests/support/families.py -->\n",
    "<!-- end of the table -->\n",
)

WINDOW = 6
"""How far layers of a window see: texts of the tests are several times as long."""


WAYS = {
    "trees": "trees",
    "chains": "chains",
    "steps": "none",
    "whole": "chains, reading the text from its beginning",
}
"""What the page calls each way."""


@dataclass(frozen=True)
class Family:
    """A configuration.

    Attributes:
        kind: `model_type` of the configuration.
        note: what is special about it.
        way: how it is read.
        settings: of the configuration, beside the sizes all have.
        exact: cached reading gives the logits of reading in one piece; False: the model's own cached steps differ.
        warns: part of the warning.
        attention: implementation, if not the default one.
    """

    kind: str
    way: str = "trees"
    note: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    exact: bool = True
    warns: str = ""
    attention: str | None = None

    def make(self, seed: int = 0) -> Any:
        """The model, float32 on the CPU."""
        from transformers import AutoConfig, AutoModelForCausalLM

        size = vocabulary().size
        sizes = {
            "vocab_size": size,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
            "initializer_range": 0.3,
            "pad_token_id": None,
            "bos_token_id": None,
            "eos_token_id": None,
        }
        config = AutoConfig.for_model(self.kind, **sizes | self.settings)
        if self.attention is not None:
            config._attn_implementation = self.attention

        def lively() -> Any:
            model = AutoModelForCausalLM.from_config(config)
            for parameter in model.parameters():  # some are made so small that a model hardly listens
                if parameter.ndim >= 2 and float(parameter.detach().std()) < 0.05:
                    torch.nn.init.normal_(parameter, std=0.2)
            return model.eval().float()

        return seeded(lively, seed)


@cache
def vocabulary() -> Any:
    """Single bytes and some pieces of JSON."""
    return byte_vocabulary('{"', '": ', '", "', '"}', "true", "name", "tags", "ab")


@contextlib.contextmanager
def expected_warning(family: Family) -> Iterator[None]:
    """Expects the family's warning, or none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(one.message) for one in caught if "is read" in str(one.message)]
    assert bool(texts) == bool(family.warns), texts
    assert all(family.warns in text for text in texts), texts


@cache
def load(name: str) -> HuggingFaceModel:
    """The model of a family, tried."""
    family = FAMILIES[name]
    with expected_warning(family):
        model = HuggingFaceModel(family.make(), vocabulary(), allow_slow=family.way == "whole")
        assert model.capabilities.mode.value == family.way, model.capabilities
    return model


def _mixed(other: str = "sliding_attention", layers: int = 2) -> dict[str, Any]:
    return {"layer_types": [other, "full_attention"] * (layers // 2), "num_hidden_layers": layers}


_LOCAL = {"sliding_window": WINDOW, **_mixed()}
_HEAD = {"head_dim": 8}
_OLD = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_SSM = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
_SHARED = {"vocab_size_per_layer_input": 300, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2}

FAMILIES: dict[str, Family] = {
    "Llama": Family("llama"),
    "Llama, eager": Family("llama", attention="eager"),
    "Mistral": Family("mistral", note="window in all layers", settings={"sliding_window": WINDOW}),
    "Mixtral": Family("mixtral", note="experts", settings=_EXPERTS | {"sliding_window": None}),
    "Ministral": Family("ministral", note="windows in some layers", settings=_HEAD | _LOCAL),
    "Qwen2": Family("qwen2"),
    "Qwen2, windows": Family(
        "qwen2", note="windows in some layers", settings=_LOCAL | {"use_sliding_window": True}
    ),
    "Qwen3": Family("qwen3", settings=_HEAD),
    "Qwen3, windows": Family(
        "qwen3", note="windows in some layers", settings=_HEAD | _LOCAL | {"use_sliding_window": True}
    ),
    "Qwen3 MoE": Family(
        "qwen3_moe",
        note="experts",
        settings=_HEAD | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "Gemma": Family("gemma", settings=_HEAD),
    "Gemma 2": Family("gemma2", note="windows in some layers", settings=_HEAD | _LOCAL),
    "Gemma 3": Family("gemma3_text", note="windows in some layers", settings=_HEAD | _LOCAL),
    "Gemma 3n": Family(
        "gemma3n_text",
        note="windows in some layers, layers that share keys and values",
        settings=_HEAD | _SHARED | {"sliding_window": WINDOW, **_mixed(layers=4)}
        | {"laurel_rank": 4, "altup_num_inputs": 2, "activation_sparsity_pattern": None, "intermediate_size": [48] * 4},
    ),
    "Gemma 4": Family(
        "gemma4_text",
        note="windows in some layers, layers that share keys and values",
        settings=_HEAD | _SHARED | {"sliding_window": WINDOW, "global_head_dim": 8, **_mixed(layers=4)},
    ),
    "gpt-oss": Family(
        "gpt_oss", note="windows in some layers, sinks, experts", settings=_HEAD | _LOCAL | _EXPERTS
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    ),
    "Phi": Family("phi"),
    "Phi 3": Family("phi3", note="window in all layers", settings={"sliding_window": WINDOW}),
    "Phi 3, LongRoPE": Family(
        "phi3",
        "steps",
        note="positions that depend on the length",
        settings={"original_max_position_embeddings": 32}
        | {"rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4,
                               "long_factor": [2.0] * 4, "original_max_position_embeddings": 32}},
        exact=False,
    ),
    "Cohere": Family("cohere"),
    "Cohere 2": Family("cohere2", note="windows in some layers", settings=_HEAD | _LOCAL),
    "OLMo 2": Family("olmo2"),
    "OLMo 3": Family("olmo3", note="windows in some layers", settings=_LOCAL),
    "Granite": Family("granite"),
    "StarCoder 2": Family("starcoder2", note="window in all layers", settings={"sliding_window": WINDOW}),
    "SmolLM 3": Family("smollm3", settings={"layer_types": ["full_attention"] * 2, "no_rope_layers": [1, 0]}),
    "EXAONE 4": Family("exaone4", note="windows in some layers", settings=_LOCAL),
    "DeepSeek V3": Family(
        "deepseek_v3",
        note="latent keys, experts",
        settings={
            "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
            "topk_group": 1, "moe_intermediate_size": 16, "first_k_dense_replace": 1,
        },
    ),
    "GLM 4": Family("glm4", settings=_HEAD),
    "Falcon": Family("falcon"),
    "Nemotron": Family("nemotron"),
    "GPT-2": Family("gpt2", note="learned positions", settings=_OLD),
    "GPT-J": Family("gptj", settings=_OLD | {"rotary_dim": 4}),
    "GPT-NeoX": Family("gpt_neox"),
    "GPTBigCode": Family("gpt_bigcode", note="one key head, learned positions", settings=_OLD),
    "OPT": Family("opt", note="learned positions", settings={"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "BioGPT": Family("biogpt", note="learned positions"),
    "Llama 4": Family(
        "llama4_text",
        "chains",
        note="chunks; scaled by the number of columns",
        settings=_HEAD | _mixed("chunked_attention") | {
            "attention_chunk_size": WINDOW, "no_rope_layers": [1, 0], "num_local_experts": 2, "intermediate_size_mlp": 48,
            "moe_layers": [], "floor_scale": 16,
        },
    ),
    "Llama 4, not scaled": Family(
        "llama4_text",
        note="chunks",
        settings=_HEAD | _mixed("chunked_attention") | {
            "attention_chunk_size": WINDOW, "no_rope_layers": [1, 0], "num_local_experts": 2, "intermediate_size_mlp": 48,
            "moe_layers": [], "attn_temperature_tuning": False,
        },
    ),
    "GPT-Neo": Family(
        "gpt_neo", "chains", note="windows over columns",
        settings={"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": WINDOW},
    ),
    "Bloom": Family("bloom", "chains", note="ALiBi", settings={"n_layer": 2, "n_head": 4}),
    "MPT": Family(
        "mpt", "chains", note="ALiBi", settings={"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 256}
    ),
    "Falcon, ALiBi": Family("falcon", "chains", note="ALiBi", settings={"alibi": True}),
    "BART decoder": Family(
        "bart", "chains", note="takes no positions",
        settings={
            "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48,
            "is_decoder": True, "is_encoder_decoder": False,
        },
    ),
    "Mamba 2": Family(
        "mamba2", "chains", note="states",
        settings={"state_size": 8, "expand": 2, "head_dim": 16, "num_heads": 4, "n_groups": 1, "chunk_size": 8},
    ),
    "Bamba": Family("bamba", "chains", note="states in some layers", settings=_SSM | {"attn_layer_indices": [1]}),
    "Qwen3-Next": Family(
        "qwen3_next", "chains", note="states in some layers, experts",
        settings=_HEAD | _mixed("linear_attention") | {
            "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
            "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 16,
        },
    ),
    "LFM2": Family("lfm2", "chains", note="convolutions in some layers", settings=_mixed("conv") | {"conv_L_cache": 3}),
    "Falcon-H1": Family(
        "falcon_h1", "chains", note="states beside attention", settings=_SSM | _HEAD | {"mamba_d_ssm": 64}
    ),
    "Granite 4 hybrid": Family(
        "granitemoehybrid", "chains", note="states in some layers, experts",
        settings=_SSM | _EXPERTS | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 48},
    ),
    "OLMo hybrid": Family("olmo_hybrid", "chains", note="states in some layers", settings=_mixed("linear_attention")),
    "Mamba": Family(
        "mamba", "steps", note="states",
        settings={"state_size": 8, "expand": 2, "conv_kernel": 4, "time_step_rank": 4},
    ),
    "Falcon-Mamba": Family(
        "falcon_mamba", "steps", note="states", settings={"state_size": 8, "time_step_rank": 4}
    ),
    "Jamba": Family(
        "jamba", "steps", note="states in some layers, experts",
        settings={
            "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2,
            "expert_layer_offset": 1, "num_experts": 2, "mamba_d_state": 8, "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "Zamba 2": Family(
        "zamba2", "steps", note="states beside attention", exact=False,
        settings={
            "num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2, "mamba_d_state": 8,
            "mamba_headdim": 16, "n_mamba_heads": 4, "mamba_ngroups": 1, "chunk_size": 8, "num_key_value_heads": 4,
            "num_mem_blocks": 1, "use_mem_rope": True,
        },
    ),
    "Nemotron-H": Family(
        "nemotron_h", "steps", note="states in some layers", exact=False,
        settings=_HEAD | {
            "num_hidden_layers": 3, "layers_block_type": ["mamba", "attention", "moe"], "mamba_num_heads": 4,
            "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1, "chunk_size": 8, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "moe_intermediate_size": 16, "moe_shared_expert_intermediate_size": 16,
        },
    ),
    "RecurrentGemma": Family(
        "recurrent_gemma", "whole", note="states in the model itself", warns="without a cache",
        settings=_HEAD | {
            "num_hidden_layers": 3, "lru_width": 32, "attention_window_size": WINDOW,
            "block_types": ["recurrent", "recurrent", "attention"],
        },
    ),
    "MiniMax": Family(
        "minimax", "whole", note="a cache of its own", warns="uses cache of its own",
        settings=_HEAD | _EXPERTS | _mixed("linear_attention") | {"block_size": 8},
    ),
    "GPT": Family("openai-gpt", "whole", note="no cache", warns="without a cache", settings=_OLD),
    "RWKV": Family(
        "rwkv", "whole", note="a state of its own kind", warns="without a cache",
        settings={"attention_hidden_size": 32, "context_length": 256},
    ),
}  # fmt: skip


def table() -> str:
    """A row for each family."""
    lines = ["| family | what is special | draft tokens | fixed steps |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {family.note} | {WAYS[family.way]} | {'yes' if family.way == 'trees' else 'no'} |"
        for name, family in FAMILIES.items()
    ]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The table of a page."""
    return page.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Writes the table."""
    page = PAGE.read_text("utf-8")
    PAGE.write_text(page.replace(BEGIN + written(page) + END, BEGIN + table() + END), "utf-8")


if __name__ == "__main__":
    main()
