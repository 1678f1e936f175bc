"""Refuses requests in vLLM's front end: 400 with the place of each problem, before the engine sees the request."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Any

from vllm.exceptions import VLLMValidationError

from constrained.errors import ConstrainedError
from constrained.integrations.vllm.automata import read_vocabulary
from constrained.integrations.vllm.request_constraint import KINDS, check_extra_args, request_fields
from constrained.integrations.vllm.request_grammar import check_fits
from constrained.integrations.vllm.trial import Trial

if TYPE_CHECKING:
    from constrained.integrations.vllm.settings import VllmSettings

BACKEND = "constrained"
"""Name of the backend in requests that this front end has checked."""


class FrontEnd:
    """Checks the constraints of requests.

    A new constraint is compiled in a sandbox while the front end waits, as vLLM's own checks make it wait; at most for
    `VllmSettings.compile_seconds`. The outcome is remembered.
    """

    def __init__(self, settings: VllmSettings) -> None:
        self._settings = settings
        self._tokenizer: Any = None
        self._trial: Trial | None = None
        self._lock = threading.Lock()

    def check(self, params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
        """Checks a request and marks it as checked.

        Args:
            params: vLLM's `SamplingParams`, with structured outputs.
            model_config: vLLM's.
            config: vLLM's `StructuredOutputsConfig`.
            tokenizer: vLLM's.

        Raises:
            VLLMValidationError: the constraint cannot be enforced, or no completion fits into `max_tokens`.
        """
        wanted = params.structured_outputs
        given = request_fields(wanted, config)
        field = next((name for name in KINDS if name in given), None)
        parameter = f"structured_outputs.{field}" if field else "structured_outputs"
        try:
            check_extra_args(getattr(params, "extra_args", None))
            if params.ignore_eos:
                parameter = "ignore_eos"
                raise VLLMValidationError(
                    "ignore_eos: a constrained completion ends where the constraint ends\n  -> leave ignore_eos out",
                    parameter=parameter,
                )
            needed = self._for(tokenizer, model_config.get_vocab_size()).shortest(given)
            parameter = (
                "max_tokens" if params.max_tokens is not None and needed > params.max_tokens else parameter
            )
            check_fits(needed, params.max_tokens)
        except ConstrainedError as error:
            raise VLLMValidationError(str(error), parameter=parameter) from None
        wanted._backend = BACKEND

    def _for(self, tokenizer: Any, size: int) -> Trial:
        with self._lock:
            if self._trial is None or self._tokenizer is not tokenizer:
                if self._trial is not None:
                    self._trial.close()
                self._tokenizer = tokenizer
                self._trial = Trial(
                    read_vocabulary(tokenizer, size, self._settings.memory_limit), self._settings
                )
                atexit.register(self._trial.close)
            return self._trial
