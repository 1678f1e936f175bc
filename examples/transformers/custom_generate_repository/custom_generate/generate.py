"""What ``model.generate(custom_generate="<this repository>", trust_remote_code=True)`` runs."""

from __future__ import annotations

from typing import Any

import constrained


def generate(
    model: Any,
    inputs: Any = None,
    constraint: Any = None,
    tokenizer: Any = None,
    vocabulary: constrained.Vocabulary | None = None,
    **settings: Any,
) -> Any:
    """Generates under a constraint, see `constrained.decode`.

    Args:
        model: passed by transformers.
        inputs: as for `generate`; or ``input_ids`` and ``attention_mask`` by name.
        constraint: a JSON Schema, a Python type, or a constraint of this library.
        tokenizer: the model's; or its `vocabulary`, which need not be read again for every call.
        vocabulary: by `constrained.Vocabulary.from_tokenizer`.
        settings: the arguments of `generate`, and ``sampler``, ``seed`` and ``options`` of `constrained.decode`.
    """
    if vocabulary is None and tokenizer is not None:
        vocabulary = constrained.Vocabulary.from_tokenizer(tokenizer, model=model)
    for name in ("custom_generate", "trust_remote_code"):
        settings.pop(name, None)
    return model.generate(
        inputs,
        custom_generate=constrained.decode,
        constraint=constraint,
        vocabulary=vocabulary,
        **settings,
    )
