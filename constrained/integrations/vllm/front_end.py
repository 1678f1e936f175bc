"""Refuses requests in vLLM's front end: 400 with the place of each problem, before the engine sees the request."""

from __future__ import annotations

import atexit
import json
import threading
from typing import TYPE_CHECKING, Any

from vllm.exceptions import VLLMValidationError

from constrained.errors import ConstrainedError, InvalidConstraint, Problem
from constrained.integrations.engines.automata import read_vocabulary
from constrained.integrations.engines.request_constraint import KINDS
from constrained.integrations.engines.request_grammar import check_lengths
from constrained.integrations.engines.trial import Trial
from constrained.integrations.vllm.request_fields import check_extra_args, request_fields

if TYPE_CHECKING:
    from constrained.integrations.engines.settings import VllmSettings

BACKEND = "constrained"
"""Name of the backend in requests that this front end has checked."""


def _make_encodable(wanted: Any) -> None:
    """The engine gets a request as MessagePack, which has neither integers beyond 64 bits nor halves of surrogate pairs.

    Raises:
        InvalidConstraint: a regular expression contains such a half.
    """
    if wanted.json is not None:
        text = wanted.json if isinstance(wanted.json, str) else json.dumps(wanted.json)
        wanted.json = text.encode("utf-8", "backslashreplace").decode()
    try:
        (wanted.regex or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint(
            "the regular expression is malformed",
            Problem(f"position {error.start}", "half of a surrogate pair is not a character"),
            action="leave it out: no text contains it",
        ) from None


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
            VLLMValidationError: the constraint cannot be enforced, or contradicts `max_tokens`
                or `min_tokens`.
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
            _make_encodable(wanted)
            if params.max_tokens is not None and needed > params.max_tokens:
                parameter = "max_tokens"
            elif needed < params.min_tokens:
                parameter = "min_tokens"
            reasons = bool(getattr(config, "reasoning_parser", ""))  # tokens of reasoning count as well
            check_lengths(needed, params.max_tokens, 0 if reasons else params.min_tokens)
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
