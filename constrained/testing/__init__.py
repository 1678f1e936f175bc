"""For tests, ours and yours: models that say what they are told, laws that can be computed, an independent judge.

ScriptedModel       says given texts, token by token, over any vocabulary
EnumerableModel     so small that every text and every law can be written down
NGramModel          has read a few texts, and forgets what is further back than a few tokens
exact_laws          the model's law over valid texts, and that of masking, by writing down every text
Judge, brute_force_mask, mask_diff              which texts and tokens a grammar allows, by plain means
g_test, token_law, text_law, check_proper       the laws of a sampler, measured and exact
Dice, outcomes      every outcome of a random run, with its probability
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "EnumeratedRandomness": "enumerated_choices",
    "EnumerableModel": "models",
    "ExactDistributions": "exact_distribution",
    "ReferenceRecognizer": "judge",
    "EnumeratedDistributions": "models",
    "NGramModel": "ngrams",
    "ScriptedModel": "models",
    "RecognizerState": "judge",
    "brute_force_mask": "masks",
    "check_proper_weighting": "distributions",
    "kl_divergence": "exact_distribution",
    "exact_distributions": "exact_distribution",
    "g_test": "distributions",
    "mask_diff": "masks",
    "enumerate_outcomes": "enumerated_choices",
    "sequence_distribution": "distributions",
    "token_distribution": "distributions",
    "total_variation": "exact_distribution",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
