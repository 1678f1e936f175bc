"""vLLM's manager of structured outputs, with our backend for every request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from vllm.logger import init_logger
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.utils import strip_speculative_padding

from constrained.errors import ConstrainedError, InvalidArgument
from constrained.integrations.vllm.backend import VllmGrammar, VllmGrammarBackend
from constrained.integrations.vllm.drafts import PROPOSER, EngineDrafts
from constrained.integrations.vllm.front_end import BACKEND

if TYPE_CHECKING:
    from constrained.integrations.engines.settings import VllmSettings

logger = init_logger("vllm.constrained")

_EXACT_REJECTION = ("standard", "block")
"""Methods of rejection sampling that keep the distribution; vLLM's ``synthetic`` and ``fly`` accept other tokens too."""

_CONSTRAINT_BEGINS: Any = (
    getattr(StructuredOutputManager, "_get_constraint_bounds", None)
    or StructuredOutputManager._get_constraint_start
)
"""How many draft tokens precede the constraint, more than there are if all do; vLLM 0.31 has it under the second name."""


class VllmManager(StructuredOutputManager):
    """A manager with one backend, which is there from the start."""

    settings: VllmSettings
    _constraint_begins = _CONSTRAINT_BEGINS

    def __init__(self, vllm_config: Any) -> None:
        """Reads the vocabulary.

        Raises:
            InvalidArgument: the configuration contradicts the plug-in.
            VocabularyError: the tokens of the tokenizer have no exact bytes.
        """
        drafts = _drafts(vllm_config)
        super().__init__(vllm_config)
        self.drafts = EngineDrafts(drafts, adapts=not self.settings.always_draft) if drafts else None
        self.backend_name = BACKEND
        self._plain = False
        self._masks: Any = None
        self._rows: Any = None
        self.ours: VllmGrammarBackend | None = None
        if not vllm_config.model_config.skip_tokenizer_init:
            size = vllm_config.model_config.get_vocab_size()
            self.ours = VllmGrammarBackend(vllm_config, self.tokenizer, size, self.settings)
            self.backend = self.ours
            logger.info("Structured outputs by constrained, %s", self.ours.automata.vocabulary)

    def grammar_init(self, request: Any) -> None:
        """Starts to compile the constraint of a request."""
        wanted = request.structured_output_request
        if wanted is None:
            return
        self._plain = self._is_plain()
        request.constrained_checked = wanted.params._backend == BACKEND
        wanted.params._backend = BACKEND  # other front ends name a backend of vLLM's
        super().grammar_init(request)

    def _create_grammar(self, request: Any) -> VllmGrammar:
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
        if self._plain:
            return self._plain_masks([requests[name] for name in structured_output_request_ids])
        reasoned: list[int] = []
        for request_id in structured_output_request_ids:
            drafts = scheduled_spec_decode_tokens.get(request_id, ())
            reasoned.append(self._count_tokens(requests[request_id], drafts))
        if self.drafts is not None:
            self.drafts.begin_pass(structured_output_request_ids, scheduled_spec_decode_tokens)
        several = len(structured_output_request_ids) > 1 or bool(scheduled_spec_decode_tokens)
        with self.ours.masks.step() if several else nullcontext():
            rows = super().grammar_bitmask(
                requests, structured_output_request_ids, scheduled_spec_decode_tokens
            )
        if any(reasoned):
            most = 1 + self.vllm_config.num_speculative_tokens
            even = len(rows) == most * len(reasoned)  # vLLM 0.33 gives every request as many rows
            row = 0
            for request_id, count in zip(structured_output_request_ids, reasoned, strict=True):
                grammar = requests[request_id].structured_output_request.grammar
                for end in grammar.automaton.vocabulary.eos_ids:  # an end here would leave out the answer
                    rows[row : row + count, end // 32] &= ~np.int32(1 << end % 32)
                row += most if even else 1 + len(scheduled_spec_decode_tokens.get(request_id, ()))
        return rows

    def _is_plain(self) -> bool:
        """Whether a step has one mask for each request, which holds from its first token on."""
        config = self.vllm_config
        return (
            self.reasoner_cls is None
            and not config.num_speculative_tokens
            and not config.model_config.is_diffusion
        )

    def _plain_masks(self, requests: list[Any]) -> Any:
        """One mask for each request, as the engine has neither drafts nor reasoning; see `StepMasks` on torch."""
        assert self.ours is not None
        if self._masks is None:
            rows = self.vllm_config.scheduler_config.max_num_seqs
            self._masks = self.ours.allocate_token_bitmask(rows)
            self._rows = self._masks.numpy()
        with self.ours.masks.step() if len(requests) > 1 else nullcontext():
            for row, request in enumerate(requests):
                grammar = request.structured_output_request.grammar
                if grammar.is_terminated():
                    self._rows[row] = -1
                    continue
                grammar.tokens_before = request.num_output_tokens - grammar.accepted
                self.ours.masks.add(grammar, self._masks, row)
        return self._rows[: len(requests)]

    def _count_tokens(self, request: Any, drafts: Sequence[int]) -> int:
        """Tells the grammar of a request how many tokens precede it, drafts that end its reasoning included.

        Returns:
            How many positions of the step, one for each draft token and one behind them, are those of reasoning.
        """
        grammar, bounds = request.structured_output_request.grammar, 0
        if self.reasoner_cls is not None:
            bounds = self._constraint_begins(request, strip_speculative_padding(drafts))
        # One number in vLLM 0.31; since 0.32 where the grammar begins, and from where on it masks.
        begins, masked = (bounds, bounds) if isinstance(bounds, int) else bounds
        grammar.tokens_before = request.num_output_tokens - grammar.accepted + min(begins, len(drafts))
        return min(masked, len(drafts) + 1)

    def accept_tokens(self, request: Any, new_token_ids: list[int]) -> bool:
        """Appends the tokens that a request got; False if one of them is not allowed."""
        structured_request = request.structured_output_request
        if self._plain and structured_request is not None and new_token_ids:
            structured_request.reasoning_ended = True  # as vLLM notes where there is none
            return bool(structured_request.grammar.accept_tokens(request.request_id, new_token_ids))
        if self.drafts is None or not request.use_structured_output or not new_token_ids:
            return bool(super().accept_tokens(request, new_token_ids))
        grammar = structured_request.grammar
        before = grammar.accepted
        accepted = bool(super().accept_tokens(request, new_token_ids))
        if structured_request.reasoning_ended:
            self._commit(request, grammar, new_token_ids[len(new_token_ids) - grammar.accepted + before :])
        return accepted

    def _commit(self, request: Any, grammar: VllmGrammar, tokens: list[int]) -> None:
        """Tells the drafts of a request what its grammar has accepted."""
        assert self.drafts is not None
        try:
            if not hasattr(request, "constrained_drafts"):
                read = list(request.all_token_ids)  # the prompt and what the request has reasoned
                request.constrained_drafts = self.drafts.request(grammar, read[: len(read) - len(tokens)])
            if request.constrained_drafts is not None and tokens:
                self.drafts.commit(request.constrained_drafts, tokens, grammar.automaton.vocabulary.eos_ids)
        except Exception:
            self._stop_drafting(request)

    def _stop_drafting(self, request: Any) -> None:
        """A request without drafts is slower; an exception would end the engine."""
        logger.exception("Request %s goes on without draft tokens", request.request_id)
        request.constrained_drafts = None

    def validate_tokens(self, request: Any, spec_tokens: list[int]) -> list[int]:
        """The draft tokens of a request: ours, or those of another proposer as far as the constraint allows them."""
        if not request.use_structured_output:
            return list(super().validate_tokens(request, spec_tokens))
        self._count_tokens(request, spec_tokens)
        if self.drafts is None:
            return list(super().validate_tokens(request, spec_tokens))
        drafts = getattr(request, "constrained_drafts", None)  # there is none while the request reasons
        if drafts is None:
            return []
        try:
            return self.drafts.propose(drafts, request.structured_output_request.grammar)
        except Exception:
            self._stop_drafting(request)
            return []


def _drafts(config: Any) -> int:
    """How many tokens we draft; 0 if nothing or another proposer drafts.

    Raises:
        InvalidArgument: the configuration contradicts the plug-in.
    """
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
    if getattr(speculative, "model", None) != PROPOSER:
        return 0
    if config.scheduler_config.async_scheduling:
        raise InvalidArgument(
            "asynchronous scheduling takes no draft tokens from the engine",
            action="pass --no-async-scheduling",
        )
    return int(speculative.num_speculative_tokens)
