"""Compares SGLang with what the backend uses of it, before an engine is built on it."""

from __future__ import annotations

from constrained.integrations.engines.compatibility import ApiCheck
from constrained.integrations.sglang import NAME

_BASE = "sglang.srt.constrained.base_grammar_backend"
_OBJECT = f"{_BASE}:BaseGrammarObject"
_BACKEND = f"{_BASE}:BaseGrammarBackend"
_REASONER = "sglang.srt.constrained.reasoner_grammar_backend:ReasonerGrammarBackend"
_MANAGER = "sglang.srt.constrained.grammar_manager:GrammarManager"
_HOOKS = "sglang.srt.plugins.hook_registry"

_PARAMETERS: dict[str, tuple[str, ...]] = {
    f"{_OBJECT}.accept_token": ("self", "token"),
    f"{_OBJECT}.rollback": ("self", "k"),
    f"{_OBJECT}.is_terminated": ("self",),
    f"{_OBJECT}.allocate_vocab_mask": ("self", "vocab_size", "batch_size", "device"),
    f"{_OBJECT}.fill_vocab_mask": ("self", "vocab_mask", "idx"),
    f"{_OBJECT}.fill_vocab_mask_batched": ("entries", "vocab_mask"),
    f"{_OBJECT}.reset_vocab_mask": ("vocab_mask",),
    f"{_OBJECT}.move_vocab_mask": ("vocab_mask", "device"),
    f"{_OBJECT}.apply_vocab_mask": ("logits", "vocab_mask"),
    f"{_OBJECT}.copy": ("self",),
    f"{_BASE}:InvalidGrammarObject.__init__": ("self", "error_message"),
    f"{_BASE}:GrammarRow": ("row", "grammar"),
    f"{_BACKEND}._init_value_dispatch": ("self", "key", "require_reasoning"),
    f"{_BACKEND}.get_cached_or_future_value": ("self", "key", "require_reasoning"),
    f"{_BACKEND}.set_cache": ("self", "key", "value"),
    f"{_BACKEND}.set_token_filter": (
        "self",
        "vocab_mask",
        "token_ids",
        "batch_idx",
        "is_allowed",
        "reset_vocab_mask",
    ),
    f"{_REASONER}.__init__": (
        "self",
        "grammar_backend",
        "reasoning_parser",
        "tokenizer",
        "enable_strict_thinking",
    ),
    f"{_REASONER}._init_value_dispatch": ("self", "key", "reasoning"),
    f"{_MANAGER}.process_req_with_grammar": ("self", "req"),
    f"{_MANAGER}.get_ready_grammar_requests": ("self",),
    f"{_HOOKS}:HookRegistry.register": ("target", "hook", "hook_type"),
    f"{_HOOKS}:HookRegistry.apply_hooks": (),
    "sglang.srt.parser.reasoning_parser:ReasoningParser.__init__": ("self", "model_type", "stream_reasoning"),
    "sglang.srt.constrained.xgrammar_backend:XGrammarGrammarBackend.apply_vocab_mask": (
        "logits",
        "vocab_mask",
    ),
    "sglang.srt.constrained.torch_ops.token_filter_torch_ops:set_token_filter_torch": (
        "vocab_mask",
        "token_ids",
        "batch_idx",
    ),
}
"""Functions that are replaced, overridden or called, with their first parameters."""

_NAMES = (
    f"{_HOOKS}:HookType.AROUND",
    f"{_HOOKS}:HookType.AFTER",
    f"{_BACKEND}.is_support_token_filter",
    "sglang.srt.runtime_context:get_serving",
    "sglang.srt.runtime_context:get_parallel",
    "sglang.srt.utils.common:is_pin_memory_available",
)
"""Other names."""

_ATTRIBUTES = {
    "sglang.srt.sampling.sampling_params:SamplingParams": (
        "json_schema",
        "regex",
        "ebnf",
        "structural_tag",
        "stop_token_ids",
        "max_new_tokens",
        "min_new_tokens",
    ),
    f"{_BASE}:GrammarStats": ("compilation_time", "dispatch_type", "is_cache_hit"),
}
"""Attributes of objects that a class makes without arguments."""

PLACES = (*_PARAMETERS, *_NAMES, *_ATTRIBUTES)
"""All that is looked at, for a record of releases."""


def check() -> None:
    """Compares SGLang with what the backend uses.

    Raises:
        IncompatibleEngine: names each difference.
    """
    names = ApiCheck()
    names.parameters(_PARAMETERS)
    for place in _NAMES:
        names.find(place)
    for place, attributes in _ATTRIBUTES.items():
        if (kind := names.find(place)) is not None:
            names.attributes(place, kind(), attributes)
    place = "sglang.srt.constrained.reasoner_grammar_backend:ReasonerGrammarObject"
    if (kind := names.find(place)) is not None:
        grammar = kind(None, (0,))
        names.attributes(place, grammar, ("grammar", "reasoning_in_grammar", "_thinking_match_history"))
    names.finish(
        "SGLang", "sglang", f"use another --grammar-backend than {NAME}, or install another version of either"
    )
