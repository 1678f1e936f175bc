"""End-of-sequence ids and the size of the logits, from the tokenizer, the model and its configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from constrained.errors import VocabularyError
from constrained.vocabulary.tokenizer_info import TokenizerInfo

END_OF_TURN_TOKENS = ("<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<|end|>", "<turn|>")
"""Tokens that end an assistant's turn in common chat templates. They count only where the tokenizer has the token
as a special one and its own chat template writes it."""


def check_eos_ids(eos_ids: Iterable[int], size: int) -> tuple[int, ...]:
    """The ids sorted, each once.

    Raises:
        VocabularyError: there are none, or one is outside the vocabulary.
    """
    ids = tuple(sorted({int(token) for token in eos_ids}))
    if not ids:
        raise VocabularyError(
            "no token ends a sequence", action="pass eos_ids=[...], the ids after which the model stops"
        )
    outside = [token for token in ids if not 0 <= token < size]
    if outside:
        raise VocabularyError(
            f"end-of-sequence id {outside[0]} is outside a vocabulary of {size} ids",
            action="pass ids of this model, or its padded vocabulary as size=...",
        )
    return ids


def find_eos_ids(reading: TokenizerInfo, model: Any, generation_config: Any) -> list[int]:
    """Every id that ends a sequence: the tokenizer's, the generation configuration's, the model configuration's.

    With a model or a generation configuration, generation is likely to go through the chat template, so the end of
    a turn that the template writes is an end of sequence too, even where the configuration omits it.

    Raises:
        VocabularyError: there is none; or the configurations name a token that is text, and not the tokenizer's own:
            a configuration made for another vocabulary, such as the default of a model class.
    """
    configs = (generation_config, getattr(model, "generation_config", None), text_config(model))
    ids = list(reading.eos_ids)
    configured = [token for config in configs for token in _as_ids(getattr(config, "eos_token_id", None))]
    _check_no_text(configured, reading)
    ids += configured
    if reading.chat_template and any(config is not None for config in configs):
        ids += [
            reading.special[name]
            for name in END_OF_TURN_TOKENS
            if name in reading.special and name in reading.chat_template
        ]
    if not ids:
        known = ", ".join(f"{name}={token}" for name, token in list(reading.special.items())[:8])
        raise VocabularyError(
            "the tokenizer names no end-of-sequence token"
            + (f"; its special tokens: {known}" if known else ""),
            action="set tokenizer.eos_token, pass the model, or pass eos_ids=[...]",
        )
    return ids


def _check_no_text(configured: list[int], reading: TokenizerInfo) -> None:
    if not reading.eos_ids or set(configured) & set(reading.eos_ids):
        return
    for token in configured:
        text = reading.tokens[token] if 0 <= token < len(reading.tokens) else b""
        if text:
            names = {number: name for name, number in reading.special.items()}
            own = reading.eos_ids[0]
            raise VocabularyError(
                f"the model's configuration ends sequences with id {token}, which is the text "
                f"{text.decode('utf-8', 'backslashreplace')!r}; the tokenizer ends them with id {own}"
                + (f", {names[own]}" if own in names else ""),
                action=f"set eos_token_id to {own} in model.config and model.generation_config (or config.json), "
                "or pass eos_ids=[...]",
            )


def model_size(model: Any) -> int | None:
    """Columns of a Hugging Face model's logits, or None without a model."""
    if model is None:
        return None
    head = getattr(model, "get_output_embeddings", lambda: None)()
    weight = getattr(head, "weight", None)
    if weight is not None:
        return int(weight.shape[0])
    size = getattr(text_config(model), "vocab_size", None)
    return None if size is None else int(size)


def text_config(model: Any) -> Any:
    """The configuration of a model's language part (a model that also sees or hears nests it)."""
    config = getattr(model, "config", None)
    inner = getattr(config, "get_text_config", None)
    return inner() if callable(inner) else config


def _as_ids(value: Any) -> list[int]:
    if value is None:
        return []
    return [int(value)] if not isinstance(value, Iterable) else [int(token) for token in value]
