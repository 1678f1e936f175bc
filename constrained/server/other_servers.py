"""Fields that clients of vLLM, SGLang, llama.cpp and Ollama send: constraints under other names, and values that change nothing.

A field that could change a completion is honoured or refused by name; it is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constrained.server.errors import ApiError, invalid_field_error, unsupported_field_error
from constrained.server.requests import ApiRequest

CONSTRAINT_FIELDS: Mapping[str, str] = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "json_schema": "json",
    "regex": "regex",
    "ebnf": "grammar",
    "grammar": "grammar",
    "structural_tag": "structural_tag",
}
"""Fields with a constraint, by the kind of `structured_outputs` that they are."""

ANY = object()
"""Every value changes nothing."""

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    # vLLM
    "add_generation_prompt": (True,),
    "add_special_tokens": (False,),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "best_of": (1,),
    "continue_final_message": (False,),
    "detokenize": (True,),
    "documents": ([],),
    "echo": (False,),
    "guided_decoding_backend": (ANY,),
    "guided_whitespace_pattern": (),
    "ignore_eos": (False,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "min_tokens": (0,),
    "priority": (0,),
    "prompt_logprobs": (False,),
    "request_id": (ANY,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "skip_special_tokens": (True, False),
    "spaces_between_special_tokens": (True, False),
    "truncate_prompt_tokens": (-1,),
    "use_beam_search": (False,),
    # SGLang
    "no_stop_trim": (False,),
    "separate_reasoning": (True,),
    "stream_reasoning": (True,),
    # llama.cpp
    "cache_prompt": (True, False),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "id_slot": (ANY,),
    "mirostat": (0,),
    "n_keep": (0, -1),
    "n_probs": (0,),
    "post_sampling_probs": (False,),
    "reasoning_format": ("auto", "deepseek"),
    "return_progress": (False,),
    "return_tokens": (False,),
    "tfs_z": (1,),
    "timings_per_token": (False,),
    "top_n_sigma": (-1,),
    "typical_p": (1,),
    "xtc_probability": (0,),
    # Ollama
    "keep_alive": (ANY,),
    # OpenAI
    "audio": (),
    "prediction": (),
    "web_search_options": (),
}
"""Fields that the server does not have, with the values that ask for what it does anyway; null is always one."""

REPEAT_LAST_N = 64
"""The tokens that llama.cpp's `repeat_penalty` looks at by default."""


def check_other_fields(request: ApiRequest) -> None:
    """Checks the fields that the server does not have.

    Raises:
        ApiError: one of them would change the completion, or is unknown.
    """
    for name, value in (request.model_extra or {}).items():
        if name not in NEUTRAL:
            raise ApiError(400, f"{name:.200}: is unknown", code="unknown_parameter", param=name[:200])
        if value is not None and not any(one is ANY or _same(one, value) for one in NEUTRAL[name]):
            raise unsupported_field_error(name, f"{value!r:.40} is not supported")


def one_of(request: ApiRequest, *names: str) -> int | None:
    """The value of a field that servers call by several names; None: it is not given, or without limit (-1).

    Raises:
        ApiError: two of the names have different values.
    """
    given = {name: value for name in names if (value := getattr(request, name, None)) not in (None, -1)}
    if len(set(given.values())) > 1:
        raise invalid_field_error(list(given)[1], f"differs from {next(iter(given))}")
    return next(iter(given.values()), None)


def repetition(request: ApiRequest) -> dict[str, float | int | None]:
    """Penalty and window of repetitions: of all tokens, or, under llama.cpp's names, of the last ones.

    Raises:
        ApiError: both are asked for.
    """
    penalty, recent = request.repetition_penalty, request.repeat_penalty
    if recent in (None, 1):
        return {"repetition_penalty": penalty}
    if penalty not in (None, 1):
        raise invalid_field_error("repeat_penalty", "cannot be combined with repetition_penalty")
    window = REPEAT_LAST_N if request.repeat_last_n is None else request.repeat_last_n
    return {"repetition_penalty": recent, "repetition_window": None if window == -1 else window}


def _same(one: Any, other: Any) -> bool:
    """Equality in which true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
