"""Layers of transformers' caches: their kinds, and those that hold nothing, over the versions of transformers."""

from __future__ import annotations

from typing import Any

from transformers import cache_utils

EMPTY_LAYER: Any = getattr(cache_utils, "DummyLayer", None)
"""The class of layers without keys and values; None where transformers leaves them out of its caches."""

EMPTY_LAYERS: tuple[Any, ...] = () if EMPTY_LAYER is None else (EMPTY_LAYER,)
"""That class, if there is one, to compare types with."""


def layer_kinds(config: Any) -> list[tuple[str, int | None]]:
    """The kind of each layer of a model's cache, and how many tokens it holds at most; None: all.

    Args:
        config: of the language part.
    """
    kinds, settings = cache_utils.get_layer_types_and_kwargs(config)
    # Before transformers 5.20 all layers have their settings in common.
    each = [settings] * len(kinds) if isinstance(settings, dict) else settings
    bounded = ("sliding_attention", "chunked_attention")
    return [
        (kind, one.get("sliding_window") if kind in bounded else None)
        for kind, one in zip(kinds, each, strict=True)
    ]
