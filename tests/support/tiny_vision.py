"""Tiny vision-language models with random weights, their processors, and images for them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from PIL import Image

from tests.support.tiny_models import seeded
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

_TEXT: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 2048, "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
_VISION: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3,
}  # fmt: skip
_QWEN: dict[str, Any] = {
    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
}
_PATCH = 14

TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}]{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endif %}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def tokenizer() -> Any:
    """A byte-level tokenizer with the special tokens of images, and a template that has places for them."""
    made = copy.deepcopy(small_bpe_tokenizer())
    names = {
        "image_token": "<image>", "boi_token": "<begin>", "eoi_token": "<end>", "fake_image_token": "<fake>",
        "global_image_token": "<global>", "end_of_utterance_token": "<utterance>",
    }  # fmt: skip
    made.add_special_tokens({"additional_special_tokens": list(names.values())})
    for name, text in names.items():
        setattr(made, name, text)
        setattr(made, f"{name}_id", made.convert_tokens_to_ids(text))
    made.chat_template = TEMPLATE
    return made


class Patches:
    """In the place of the processors that need torchvision: an image becomes pixels of one size.

    Args:
        tokens: positions of an image.
        inputs: makes the inputs of the model of the pixels of an image, [3, 56, 56].
    """

    image_processor = True

    def __init__(self, tokens: int, inputs: Any) -> None:
        self.tokenizer = tokenizer()
        self._tokens, self._inputs = tokens, inputs

    def __call__(self, text: Sequence[str], images: Sequence[Any], return_tensors: str) -> Any:
        (one,) = text
        if one.count("<image>") != len(images):
            raise ValueError(f"{one.count('<image>')} places for {len(images)} images")
        encoded = self.tokenizer([one.replace("<image>", "<image>" * self._tokens)])
        pixels = [np.asarray(image.resize((56, 56)), dtype=np.float32) / 127.5 - 1 for image in images]
        made = [self._inputs(torch.from_numpy(one).permute(2, 0, 1)) for one in pixels]
        data = {name: torch.stack([one[name] for one in made]) for name in made[0]}
        if "image_grid_thw" in data:
            data["pixel_values"] = data["pixel_values"].flatten(0, 1)
            data["mm_token_type_ids"] = (
                torch.tensor(encoded["input_ids"]).eq(self.tokenizer.image_token_id).long()
            )
        texts = {name: encoded[name] for name in ("input_ids", "attention_mask")}
        return transformers.BatchFeature({**texts, **data}, tensor_type=return_tensors)


class Vision(NamedTuple):
    """A model and its processor."""

    model: Any
    processor: Any


def picture(seed: int, width: int = 50, height: int = 40) -> Any:
    """An image of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@cache
def tiny_vision(kind: str) -> Vision:
    """A model of a kind, by its `model_type`."""
    read = tokenizer()
    text = dict(_TEXT)
    common = {"image_token_id": read.image_token_id, "image_token_index": read.image_token_id}
    vision: dict[str, Any] = {**_VISION, "image_size": 56, "patch_size": _PATCH}
    more: dict[str, Any] = {}
    if kind == "llava":
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

        text["model_type"] = "llama"
        vision |= {"model_type": "clip_vision_model", "image_size": 28}
        pixels: Any = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
        processor: Any = transformers.LlavaProcessor(
            image_processor=pixels, tokenizer=read, patch_size=_PATCH, vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
        )  # fmt: skip
    elif kind == "idefics3":
        from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

        text["model_type"] = "llama"
        vision |= {"image_size": 32, "patch_size": 8}
        more["scale_factor"] = 2
        pixels = Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
        processor = transformers.Idefics3Processor(image_processor=pixels, tokenizer=read, image_seq_len=4)
    elif kind == "gemma3":
        from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

        text["head_dim"], more["mm_tokens_per_image"] = 16, 4
        more |= {"boi_token_index": read.boi_token_id, "eoi_token_index": read.eoi_token_id}
        read.chat_template = TEMPLATE.replace("<image>", "<begin>")
        pixels = Gemma3ImageProcessorPil(size={"height": 56, "width": 56})
        processor = transformers.Gemma3Processor(image_processor=pixels, tokenizer=read, image_seq_length=4)
    elif kind == "mistral3":
        text["model_type"] = "mistral"
        vision |= {"model_type": "pixtral", "head_dim": 16}
        more |= {"vision_feature_layer": -1, "spatial_merge_size": 2}
        size = torch.tensor([56, 56])
        processor = Patches(4, lambda pixels: {"pixel_values": pixels, "image_sizes": size})
    elif kind == "internvl":
        text["model_type"] = "qwen2"
        vision |= {"image_size": [56, 56], "patch_size": [_PATCH, _PATCH]}
        processor = Patches(4, lambda pixels: {"pixel_values": pixels})
    else:
        assert kind == "qwen2_vl"
        text |= _QWEN
        vision = {"depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2}
        grid = torch.tensor([1, 4, 4])
        processor = Patches(4, lambda pixels: {"pixel_values": _qwen_patches(pixels), "image_grid_thw": grid})
    text["vocab_size"] = len(processor.tokenizer)  # processors add tokens of their own
    config = transformers.AutoConfig.for_model(kind, text_config=text, vision_config=vision, **common, **more)
    model = seeded(lambda: transformers.AutoModelForImageTextToText.from_config(config)).eval()
    model.generation_config.eos_token_id = None
    return Vision(model, processor)


def _qwen_patches(pixels: torch.Tensor) -> torch.Tensor:
    """Sixteen patches of two frames, [16, 3 * 2 * 14 * 14]."""
    patches = (
        pixels.unfold(1, _PATCH, _PATCH)
        .unfold(2, _PATCH, _PATCH)
        .permute(1, 2, 0, 3, 4)
        .reshape(16, 3, 1, 14, 14)
    )
    return patches.expand(-1, -1, 2, -1, -1).reshape(16, -1)
