"""Checkpoints that also take images or sound are loaded by name, for text, and read as their text models are."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import transformers

import constrained
from constrained.cli import main
from constrained.errors import ModelError
from constrained.integrations.langchain import ChatConstrained
from constrained.models.sequential_cache import ForwardMode
from tests.support.tiny_models import seeded
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

_TEXT: dict[str, Any] = {
    "vocab_size": len(small_bpe_tokenizer()), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.3,
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
_THREE_ROWS = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}}
"""Positions of time, height and width: rows of equal numbers where all is text."""
_VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
_DEPTH = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64}
_LATENT = {
    "model_type": "deepseek_v3", "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1,
}  # fmt: skip

TYPES: dict[str, tuple[dict[str, Any], dict[str, Any], ForwardMode]] = {
    "mistral3": (
        {"model_type": "mistral"},
        {"model_type": "pixtral", **_VISION, "image_size": 28, "patch_size": 14, "head_dim": 16}, ForwardMode.TREES,
    ),
    "qwen2_vl": (_THREE_ROWS, {"depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2}, ForwardMode.TREES),
    "qwen2_5_vl": (_THREE_ROWS, _DEPTH, ForwardMode.TREES),
    "qwen3_vl": ({**_THREE_ROWS, "head_dim": 16}, {**_DEPTH, "deepstack_visual_indexes": [0]}, ForwardMode.TREES),
    "glm4v": (_THREE_ROWS, _DEPTH, ForwardMode.TREES),
    "smolvlm": ({"model_type": "llama"}, {**_VISION, "image_size": 32, "patch_size": 16}, ForwardMode.TREES),
    "internvl": ({"model_type": "qwen2"}, {**_VISION, "image_size": [32, 32], "patch_size": [16, 16]}, ForwardMode.TREES),
    "lfm2_vl": (
        {"model_type": "lfm2", "layer_types": ["conv", "full_attention"], "conv_L_cache": 3},
        {"model_type": "siglip2_vision_model", **_VISION}, ForwardMode.CHAINS,
    ),
    "kimi_k25": (_LATENT, {}, ForwardMode.TREES),
}  # fmt: skip
"""Settings of text and vision, and how the text is read."""


def save(kind: str, folder: Path) -> Path:
    text, vision, _ = TYPES[kind]
    given: dict[str, Any] = {"text_config": {**_TEXT, **text}}
    if vision:
        given["vision_config"] = vision
    config = transformers.AutoConfig.for_model(kind, **given)
    model = seeded(lambda: transformers.AutoModelForImageTextToText.from_config(config))
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    small_bpe_tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.ci) if i % 3 else kind for i, kind in enumerate(TYPES)])  # fmt: skip
def test_a_checkpoint_is_loaded_by_name_and_read_as_its_text_model(kind: str, tmp_path: Path) -> None:
    model: Any = constrained.load(save(kind, tmp_path), device="cpu")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*slower.*")
        assert model.capabilities.mode is TYPES[kind][2], model.capabilities
    letters = constrained.regex("[ab]{8}")
    plain = constrained.Generator(model, letters, sampler="local")("The", temperature=0, max_tokens=20)
    drafted = constrained.Generator(
        model, letters, sampler="local", speculation=constrained.Speculation(nodes=6)
    )
    assert drafted("The", temperature=0, max_tokens=20).tokens == plain.tokens
    used = constrained.ConstraintLogitsProcessor(letters, model.vocabulary, max_tokens=20)
    ids = small_bpe_tokenizer()("The", return_tensors="pt")
    written = model.model.generate(
        **ids, logits_processor=[used], max_new_tokens=20, do_sample=False, pad_token_id=0
    )
    assert written[0, ids["input_ids"].shape[1] :].tolist()[: len(plain.tokens)] == list(plain.tokens)


def test_the_command_line_and_langchain_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save("smolvlm", tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["generate", "Say a or b:", "--choice", "a,b", "--model", str(folder), "--quiet"])
    assert end.value.code == 0
    assert capsys.readouterr().out.strip() in ("a", "b")
    schema = {
        "title": "Answer",
        "type": "object",
        "properties": {"answer": {"enum": ["a", "b"]}},
        "required": ["answer"],
    }
    structured = ChatConstrained(model=str(folder)).with_structured_output(
        schema | {"additionalProperties": False}
    )
    assert structured.invoke("a or b?") in ({"answer": "a"}, {"answer": "b"})


def test_what_generates_no_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    transformers.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2).save_pretrained(
        tmp_path
    )
    small_bpe_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="a vit model generates no text"):
        constrained.load(tmp_path)
