"""Tools for tests of this library and of its users: small models, exact distributions, an independent recognizer.

ScriptedModel                                   writes given completions over any vocabulary
EnumerableModel                                 so small that all sequences and distributions can be enumerated
NGramModel                                      an n-gram model of a few token sequences
exact_distributions                             the conditional and the local distribution, by enumeration
ReferenceRecognizer, brute_force_mask, mask_diff  membership and masks of a grammar, by simple algorithms
g_test, token_distribution, sequence_distribution, check_proper_weighting
                                                distributions of a sampler, measured and exact
EnumeratedRandomness, enumerate_outcomes        every outcome of a random run, with its probability
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
