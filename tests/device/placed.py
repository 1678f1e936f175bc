"""Models on pretended devices."""

from __future__ import annotations

import copy
from typing import Any

import torch

from constrained.models.hugging_face import HuggingFaceModel
from tests.device.pretended import PretendedDevice


class CountedModel(HuggingFaceModel):
    """A model that counts its forward passes.

    Attributes:
        passes: since it was made, or set to 0.
    """

    passes = 0

    def _logits(self, *args: Any) -> Any:
        self.passes += 1
        return super()._logits(*args)


def placed(device: PretendedDevice, model: Any, *, devices: int = 1, engine: str = "eager") -> CountedModel:
    """A copy of a model of Llama's kind on one pretended device, or with its layers split over two."""
    weights = device.move(copy.deepcopy(model.model))
    if devices == 2:
        split_layers(device, weights)
    made = CountedModel(weights, model.tokenizer, engine=engine)
    assert made.capabilities.no_trees is None
    assert made.no_engine is None
    made.passes = 0
    return made


def split_layers(device: PretendedDevice, model: Any) -> None:
    """Puts the later half of the layers, and what follows them, on ``cuda:1``, as accelerate does for a `device_map`.

    A module that has a device gets its arguments there; the whole model gives its result where its arguments were.
    """
    layers = list(model.model.layers)
    for module in (*layers[len(layers) // 2 :], model.model.norm, model.lm_head):
        device.move(module, "cuda:1")
    for module in (*layers, model.model.norm, model.lm_head):
        own = next(module.parameters()).device
        module.register_forward_pre_hook(
            lambda module, args, kwargs, own=own: (_sent(args, own), _sent(kwargs, own)), with_kwargs=True
        )
    first = model.get_input_embeddings().weight.device

    def returned(module: Any, args: Any, output: Any) -> Any:
        output.logits = output.logits.to(first)
        return output

    model.register_forward_hook(returned)


def _sent(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (tuple, list)):
        return type(value)(_sent(one, device) for one in value)
    if isinstance(value, dict):
        return {key: _sent(one, device) for key, one in value.items()}
    return value
