"""vLLM's manager of structured outputs, with our backend for every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger
from vllm.v1.structured_output import StructuredOutputManager

from constrained.errors import ConstrainedError, InvalidArgument
from constrained.integrations.vllm.backend import ConstrainedBackend, ConstrainedGrammar
from constrained.integrations.vllm.front_end import BACKEND

if TYPE_CHECKING:
    from constrained.integrations.vllm.settings import VllmSettings

logger = init_logger("vllm.constrained")

_EXACT_REJECTION = ("standard", "block")
"""Methods of rejection sampling that keep the distribution; vLLM's ``synthetic`` and ``fly`` accept other tokens too."""


class ConstrainedManager(StructuredOutputManager):
    """A manager with one backend, which is there from the start."""

    settings: VllmSettings

    def __init__(self, vllm_config: Any) -> None:
        """Reads the vocabulary.

        Raises:
            InvalidArgument: the configuration contradicts the plug-in.
            VocabularyError: the tokens of the tokenizer have no exact bytes.
        """
        _check_config(vllm_config)
        super().__init__(vllm_config)
        self.backend_name = BACKEND
        self.ours: ConstrainedBackend | None = None
        if not vllm_config.model_config.skip_tokenizer_init:
            size = vllm_config.model_config.get_vocab_size()
            self.ours = ConstrainedBackend(vllm_config, self.tokenizer, size, self.settings)
            self.backend = self.ours
            logger.info("Structured outputs by constrained, %s", self.ours.automata.vocabulary)

    def grammar_init(self, request: Any) -> None:
        """Starts to compile the constraint of a request."""
        wanted = request.structured_output_request
        if wanted is None:
            return
        request.constrained_checked = wanted.params._backend == BACKEND
        wanted.params._backend = BACKEND  # other front ends name a backend of vLLM's
        super().grammar_init(request)

    def _create_grammar(self, request: Any) -> ConstrainedGrammar:
        assert self.ours is not None
        try:
            return self.ours.compile_request(request, checked=request.constrained_checked)
        except ConstrainedError as error:
            logger.warning("Request %s is refused: %s", request.request_id, error)
            raise

    def grammar_bitmask(
        self, requests: Any, structured_output_request_ids: Any, scheduled_spec_decode_tokens: Any
    ) -> Any:
        """The masks of a step, int32 ``[rows, words]``."""
        if self.ours is None or not structured_output_request_ids:
            return super().grammar_bitmask(
                requests, structured_output_request_ids, scheduled_spec_decode_tokens
            )
        for request_id in structured_output_request_ids:
            request = requests[request_id]
            grammar = request.structured_output_request.grammar
            grammar.tokens_before = request.num_output_tokens - grammar.accepted
        with self.ours.masks.step():
            return super().grammar_bitmask(
                requests, structured_output_request_ids, scheduled_spec_decode_tokens
            )


def _check_config(config: Any) -> None:
    backend = config.structured_outputs_config.backend
    if backend != "auto":
        raise InvalidArgument(
            f"structured_outputs_config.backend is {backend!r}, and constrained is switched on",
            action="leave one of them out",
        )
    speculative = config.speculative_config
    method = getattr(speculative, "rejection_sample_method", "standard")
    if speculative is not None and method not in _EXACT_REJECTION:
        raise InvalidArgument(
            f"rejection_sample_method is {method!r}, which does not keep the distribution of the model",
            action=f"use one of: {', '.join(_EXACT_REJECTION)}",
        )
