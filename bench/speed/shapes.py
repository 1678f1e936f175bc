"""Models of random weights in the shape of real ones: as fast as those, and as large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.bench.masks.workload import VocabularyData, load_bench_vocabulary
from constrained.errors import InvalidArgument
from constrained.models import load
from constrained.models.hugging_face import HuggingFaceModel
from constrained.vocabulary import Vocabulary

CONTEXT = 8192


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a Llama-like model.

    Attributes:
        hidden: width of the residual stream.
        inner: width of the feed-forward layers.
        layers: their number.
        heads: attention heads.
        groups: key and value heads.
        vocabulary: default vocabulary.
    """

    hidden: int
    inner: int
    layers: int
    heads: int
    groups: int
    vocabulary: str = "bundled"


SHAPES = {
    "1m": ModelShape(128, 384, 4, 4, 4),
    "60m": ModelShape(640, 1792, 10, 10, 10),
    "250m": ModelShape(1024, 2816, 20, 16, 16),
    "1b": ModelShape(2048, 8192, 16, 32, 8, "tekken"),
    "8b": ModelShape(4096, 14336, 32, 32, 8, "tekken"),
    "70b": ModelShape(8192, 28672, 80, 64, 8, "tekken"),
}
"""By their weights without embeddings; the last three are those of Llama 3."""


def shape(name: str) -> ModelShape:
    """A shape by its name.

    Raises:
        InvalidArgument: there is no such shape.
    """
    if name not in SHAPES:
        raise InvalidArgument(f"there is no shape {name!r}", action=f"name one of {', '.join(SHAPES)}")
    return SHAPES[name]


def load_vocabulary_pair(name: str) -> tuple[Vocabulary, VocabularyData]:
    """A vocabulary for this library, and as data for other engines.

    Args:
        name: ``bundled``, ``tekken``, or a Hugging Face tokenizer.

    Raises:
        ModelError: it cannot be read.
    """
    if name != "bundled":
        return load_bench_vocabulary(name)
    bundled = load()
    assert isinstance(bundled, HuggingFaceModel)
    return bundled.vocabulary, vocabulary_data(bundled)


def vocabulary_data(model: HuggingFaceModel) -> VocabularyData:
    """A model's vocabulary as data for other engines."""
    return VocabularyData.from_vocabulary(model.vocabulary, model.tokenizer)


def random_model(
    sizes: ModelShape,
    vocabulary: Vocabulary,
    *,
    device: str | None = None,
    dtype: str | None = None,
    seed: int = 0,
) -> HuggingFaceModel:
    """A model of random weights.

    Args:
        sizes: its shape.
        vocabulary: of its logits.
        device: a GPU by default, if there is one.
        dtype: of the weights; by default float32 on a CPU and bfloat16 elsewhere.
        seed: of the weights.

    Raises:
        InvalidArgument: there is no such device or dtype.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind: Any = getattr(torch, dtype or ("float32" if place == "cpu" else "bfloat16"), None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise InvalidArgument(
            f"{dtype!r} is not a floating-point type", action="pass --dtype float32 or bfloat16"
        )
    if place.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidArgument("there is no CUDA device", action="pass --device cpu")
    config = LlamaConfig(
        vocab_size=vocabulary.size,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.inner,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.groups,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=list(vocabulary.eos_ids),
        pad_token_id=vocabulary.eos_ids[0],
    )
    before = torch.get_default_dtype()
    torch.manual_seed(seed)
    torch.set_default_dtype(kind)
    try:
        with torch.device(place):
            made = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return HuggingFaceModel(made, vocabulary)
