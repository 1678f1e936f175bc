"""Tools for tests of this library and of its users: a model that writes what it is told, and an independent recognizer.

ScriptedModel                                   writes given completions over any vocabulary
ReferenceRecognizer, brute_force_mask, mask_diff  membership and masks of a grammar, by simple algorithms
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "ReferenceRecognizer": "judge",
    "RecognizerState": "judge",
    "ScriptedModel": "models",
    "brute_force_mask": "masks",
    "mask_diff": "masks",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
