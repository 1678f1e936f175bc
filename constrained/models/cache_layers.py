"""Layers of transformers' caches that hold nothing: `DummyLayer` in newer versions; older ones have none."""

from __future__ import annotations

from typing import Any

from transformers import cache_utils

EMPTY_LAYER: Any = getattr(cache_utils, "DummyLayer", None)
"""The class of layers without keys and values; None where transformers leaves them out of its caches."""

EMPTY_LAYERS: tuple[Any, ...] = () if EMPTY_LAYER is None else (EMPTY_LAYER,)
"""That class, if there is one, to compare types with."""
