"""How many positions of a KV cache fit into memory."""

from __future__ import annotations

import os
from typing import Any

from constrained.models.base import LanguageModel

_SHARE = 0.5
"""Part of the free memory that a batch may use; forward passes need the rest."""


def batch_token_limit(model: LanguageModel) -> int | None:
    """The positions (rows times columns) of a KV cache that fit into half of the memory that is free now.

    None if that is not known: a model that says nothing about it, or a configuration without the usual fields (recurrent models
    have none; their cache does not grow).
    """
    from constrained.models.hugging_face import HuggingFaceModel

    if isinstance(model, HuggingFaceModel):
        size, free = cache_bytes_per_token(model.model), free_memory(model.device)
    else:
        size, free = model.cache_bytes_per_token, free_main_memory()
    return None if size is None or free is None else max(1, int(_SHARE * free) // size)


def cache_bytes_per_token(model: Any) -> int | None:
    """Bytes of keys and values of one position in all layers of a transformers model; None if it is not known."""
    from constrained.models.capabilities import decoder_config

    config = decoder_config(model)
    layers = getattr(config, "num_hidden_layers", None)
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "hidden_size", None)
    if not (isinstance(layers, int) and isinstance(heads, int) and heads and isinstance(width, int)):
        return None
    kept = getattr(config, "num_key_value_heads", None) or heads
    head = getattr(config, "head_dim", None) or width // heads
    return int(2 * layers * kept * head * model.dtype.itemsize)


def free_memory(device: Any) -> int | None:
    """Free bytes of a device (a `torch.device`); None if the system does not say."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return free_main_memory() if device.type == "cpu" else None


def free_main_memory() -> int | None:
    """Free bytes of the main memory; None if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None
