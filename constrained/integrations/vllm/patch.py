"""Puts the plug-in into vLLM: checks every name that it uses, then replaces some of them; or changes nothing.

vLLM has no hook for a backend of structured outputs. Replaced are `vllm.v1.engine.core.StructuredOutputManager`, by a
subclass, `SamplingParams._validate_structured_outputs`, by a function that checks requests under our backend, and the
functions that read beam search out of a request over HTTP: vLLM drops the constraint there.
"""

from __future__ import annotations

import threading
from typing import Any

from constrained.integrations.engines.compatibility import ApiCheck
from constrained.integrations.engines.request_constraint import FLAGS, KINDS
from constrained.integrations.engines.settings import VllmSettings

_MANAGER = "vllm.v1.structured_output:StructuredOutputManager"
_PARAMS = "vllm.sampling_params:SamplingParams"
_TYPES = "vllm.v1.structured_output.backend_types"

_REQUESTS = (
    "vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest",
    "vllm.entrypoints.openai.completion.protocol:CompletionRequest",
)

_PARAMETERS: dict[str, tuple[str, ...]] = {
    f"{_MANAGER}.__init__": ("self", "vllm_config"),
    f"{_MANAGER}.grammar_init": ("self", "request"),
    f"{_MANAGER}._create_grammar": ("self", "request"),
    f"{_MANAGER}.validate_tokens": ("self", "request", "spec_tokens"),
    f"{_MANAGER}.accept_tokens": ("self", "request", "new_token_ids"),
    f"{_MANAGER}.grammar_bitmask": (
        "self",
        "requests",
        "structured_output_request_ids",
        "scheduled_spec_decode_tokens",
    ),
    f"{_PARAMS}._validate_structured_outputs": (
        "self",
        "model_config",
        "structured_outputs_config",
        "tokenizer",
    ),
    **{
        f"{request}.to_beam_search_params": ("self", "max_tokens", "default_sampling_params")
        for request in _REQUESTS
    },
    **{f"{request}.extract_structured_outputs": ("self",) for request in _REQUESTS},
}
"""Functions that are replaced or called, with their parameters."""

_ABSTRACT: dict[str, set[str]] = {
    f"{_TYPES}:StructuredOutputGrammar": {
        "accept_tokens",
        "fill_bitmask",
        "is_terminated",
        "reset",
        "rollback",
        "validate_tokens",
    },
    f"{_TYPES}:StructuredOutputBackend": {"allocate_token_bitmask", "compile_grammar", "destroy"},
}
"""Classes that the plug-in derives from, with all their abstract methods."""

_FIELDS = {*KINDS, *FLAGS, "_backend", "_backend_was_auto"}
"""Fields of `StructuredOutputsParams`: one that is unknown here could be a constraint that nobody enforces."""

_STRUCTURED = "vllm.sampling_params:StructuredOutputsParams"
_BOUNDS = ("_get_constraint_bounds", "_get_constraint_start")
_USED = "vllm.v1.engine.core:StructuredOutputManager"
_NAMES = ("vllm.exceptions:VLLMValidationError", "vllm.v1.structured_output.utils:strip_speculative_padding")

PLACES = (
    *_PARAMETERS,
    *_ABSTRACT,
    *_NAMES,
    *(f"{_MANAGER}.{name}" for name in _BOUNDS),
    _MANAGER,
    _STRUCTURED,
    _USED,
)
"""All that is looked at, for a record of releases."""

_lock = threading.Lock()


def install(settings: VllmSettings) -> None:
    """Replaces the names, once in a process.

    Raises:
        IncompatibleEngine: a name is missing or has changed.
    """
    with _lock:
        if VllmSettings.installed:
            return
        check()
        from vllm.sampling_params import SamplingParams
        from vllm.v1.engine import core

        from constrained.integrations.vllm.front_end import FrontEnd
        from constrained.integrations.vllm.manager import VllmManager

        front_end, original = FrontEnd(settings), SamplingParams._validate_structured_outputs

        def validate(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
            wanted = self.structured_outputs
            if (
                wanted is None
                or structured_outputs_config is None
                or tokenizer is None
                or model_config.is_diffusion
            ):
                original(self, model_config, structured_outputs_config, tokenizer)
            else:
                front_end.check(self, model_config, structured_outputs_config, tokenizer)

        VllmManager.settings = settings
        core.StructuredOutputManager = VllmManager
        SamplingParams._validate_structured_outputs = validate
        for place in _REQUESTS:
            _refuse_constrained_beams(ApiCheck().find(place))
        VllmSettings.installed = True


def _refuse_constrained_beams(request: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    original = request.to_beam_search_params

    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.extract_structured_outputs() is not None:
            raise VLLMValidationError(
                "beam search of vLLM does not keep a constraint\n  -> leave use_beam_search out",
                parameter="use_beam_search",
            )
        return original(self, *args, **kwargs)

    request.to_beam_search_params = read


def check() -> None:
    """Compares vLLM with what the plug-in uses.

    Raises:
        IncompatibleEngine: names each difference.
    """
    names = ApiCheck()
    # The engine core must use the manager that the subclass derives from.
    names.same(_USED, names.find(_MANAGER))
    for place in _NAMES:
        names.find(place)
    names.parameters(_PARAMETERS)
    names.one_of(_MANAGER, _BOUNDS)
    for place, methods in _ABSTRACT.items():
        if (kind := names.find(place)) is not None:
            names.fields(place, set(kind.__abstractmethods__), methods)
    if (kind := names.find(_STRUCTURED)) is not None:
        names.fields(_STRUCTURED, set(kind.__dataclass_fields__), _FIELDS)
    names.finish(
        "vLLM",
        "vllm",
        f"unset {VllmSettings.VARIABLE} to serve with vLLM's own backends, or install another version of either",
    )
