"""For tests, ours and yours: models that say what they are told, laws that can be computed, an independent judge.

ScriptedModel       says given texts, token by token, over any vocabulary
EnumerableModel     so small that every text and every law can be written down
Judge, brute_force_mask, mask_diff              which texts and tokens a grammar allows, by plain means
g_test, token_law, text_law, check_proper       the laws of a sampler, measured and exact
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "EnumerableModel": "models",
    "Judge": "judge",
    "Laws": "models",
    "ScriptedModel": "models",
    "State": "judge",
    "brute_force_mask": "masks",
    "check_proper": "laws",
    "g_test": "laws",
    "mask_diff": "masks",
    "text_law": "laws",
    "token_law": "laws",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
