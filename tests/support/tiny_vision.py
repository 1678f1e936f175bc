"""Tiny vision-language models with random weights, their processors, and images for them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from PIL import Image

import constrained
from constrained.constraint import Constraint
from tests.support.tiny_models import seeded
from tests.support.tokenizers_fixtures import small_bpe_tokenizer

_TEXT: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 2048, "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
_VISION: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3,
}  # fmt: skip
_THREE = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}}
_QWEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "qwen2_vl": (_THREE, {"embed_dim": 32, "hidden_size": 64}),
    "qwen2_5_vl": (
        _THREE,
        {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64, "fullatt_block_indexes": [1]},
    ),
    "qwen3_vl": (
        {**_THREE, "head_dim": 16},
        {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64, "deepstack_visual_indexes": [0, 1],
         "num_position_embeddings": 64},
    ),
    "glm4v": (_THREE, {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64, "image_size": 56}),
    "qwen3_5": (
        {"layer_types": ["linear_attention", "full_attention"], "head_dim": 16, "linear_num_key_heads": 2,
         "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
         "rope_parameters": {**_THREE["rope_parameters"], "partial_rotary_factor": 1.0}},
        {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": 64, "num_position_embeddings": 64},
    ),
}  # fmt: skip
"""Settings of text and vision. Positions of time, height and width; of Qwen3-VL also features in deeper layers."""
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
        texts = {name: encoded[name] for name in ("input_ids", "attention_mask")}
        return transformers.BatchFeature({**texts, **data}, tensor_type=return_tensors)


class QwenProcessor(transformers.Qwen2VLProcessor):
    """Without a part for videos, which needs torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> type:
        return type(argument)


class Vision(NamedTuple):
    """A model and its processor."""

    model: Any
    processor: Any


def asked(*content: Any) -> list[dict[str, Any]]:
    """A chat with one message: texts, and images as transformers has them."""
    parts = [
        {"type": "text", "text": one} if isinstance(one, str) else {"type": "image", "image": one}
        for one in content
    ]
    return [{"role": "user", "content": parts}]


def inputs_of(kind: str, chat: Sequence[Mapping[str, Any]]) -> Any:
    """What the processor of a model makes of a chat with one message."""
    processor = tiny_vision(kind).processor
    content = chat[0]["content"]
    pictures = [part["image"] for part in content if part["type"] == "image"]
    shown = [{"role": "user", "content": [{**part, "image": None} for part in content]}]
    text = processor.tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=True)
    return processor(text=[text], images=pictures, return_tensors="pt")


def generated(kind: str, chat: Sequence[Mapping[str, Any]], constraint: Constraint) -> list[int]:
    """The tokens, 40 at most, that `generate` writes under a constraint."""
    vision, inputs = tiny_vision(kind), inputs_of(kind, chat)
    vocabulary = constrained.load(*vision).vocabulary
    used = constrained.ConstraintLogitsProcessor(constraint, vocabulary, max_tokens=40)
    written = vision.model.generate(
        **inputs, logits_processor=[used], max_new_tokens=40, do_sample=False, pad_token_id=0
    )
    tokens: list[int] = written[0, inputs["input_ids"].shape[1] :].tolist()
    return tokens


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
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        text |= _QWEN[kind][0]
        vision = {
            "depth": 3,
            "num_heads": 2,
            "patch_size": _PATCH,
            "initializer_range": 0.3,
            **_QWEN[kind][1],
        }
        edges = {"shortest_edge": 4 * 28 * 28, "longest_edge": 12 * 28 * 28}
        processor = QwenProcessor(Qwen2VLImageProcessorPil(patch_size=_PATCH, size=edges), read)
    text["vocab_size"] = len(processor.tokenizer)  # processors add tokens of their own
    config = transformers.AutoConfig.for_model(kind, text_config=text, vision_config=vision, **common, **more)
    model = seeded(lambda: transformers.AutoModelForImageTextToText.from_config(config)).eval()
    model.generation_config.eos_token_id = None
    return Vision(model, processor)
