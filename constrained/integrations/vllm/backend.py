"""Our automata as vLLM's abstract classes: the grammar of a request, and the backend that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from constrained.errors import InvalidArgument
from constrained.integrations.engines.automata import Automata, read_vocabulary
from constrained.integrations.engines.request_grammar import RequestGrammar
from constrained.integrations.engines.step_masks import StepMasks, write_mask
from constrained.integrations.engines.trial import Trial
from constrained.integrations.vllm.request_fields import request_fields

if TYPE_CHECKING:
    from constrained.automaton import Automaton
    from constrained.integrations.engines.settings import VllmSettings

logger = init_logger("vllm.constrained")


class VllmGrammar(RequestGrammar, StructuredOutputGrammar):
    """A `RequestGrammar` as vLLM's class. Its masks are written when a step's masks are, see `StepMasks`."""

    def __init__(self, automaton: Automaton, limit: int | None, masks: StepMasks, canonical: bool) -> None:
        super().__init__(automaton, limit, canonical=canonical)
        self._masks = masks

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Appends tokens; False, and no change, if one of them is not allowed."""
        known = self.failure
        accepted = self.append(tokens)
        if not accepted:
            self._masks.write()  # vLLM copies the last mask now
        if self.failure is not known:
            logger.error("Request %s fails: %s", request_id, self.failure)
        return accepted

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Writes the mask of the present state, int32 ``[rows, words]``; during a step, at its end."""
        self._masks.add(self, bitmask, batch_index)


class VllmGrammarBackend(StructuredOutputBackend):
    """Compiles the constraints of all requests of an engine.

    Attributes:
        automata: compiled automata.
        masks: writes the masks of a step.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int, settings: VllmSettings) -> None:
        """Reads the vocabulary.

        Raises:
            VocabularyError: the tokens have no exact bytes.
        """
        super().__init__(vllm_config, tokenizer, vocab_size)
        vocabulary = read_vocabulary(tokenizer, vocab_size, settings.memory_limit)
        self.automata = Automata(vocabulary, settings)
        self.masks = StepMasks()
        self._trial = Trial(vocabulary, settings)
        self._canonical = settings.canonical

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> VllmGrammar:
        """The grammar of a specification, without what else the request says.

        Raises:
            ConstrainedError: it cannot be enforced.
        """
        field = request_type.name.lower()
        given = request_fields(None, self.vllm_config.structured_outputs_config)
        given[field] = True if field == "json_object" else grammar_spec
        return self._grammar(given, stop_token_ids, None)

    def compile_request(self, request: Any, *, checked: bool) -> VllmGrammar:
        """The grammar of a request, with its flags, stop ids and token limit.

        Args:
            request: vLLM's `Request`, with structured outputs.
            checked: our front end compiled its constraint; otherwise it is compiled in a sandbox first.

        Raises:
            ConstrainedError: the constraint cannot be enforced, or no completion fits into the token limit.
        """
        params = request.sampling_params
        given = request_fields(params.structured_outputs, self.vllm_config.structured_outputs_config)
        if params.ignore_eos:
            raise InvalidArgument(
                "ignore_eos is set, so a constrained completion cannot end", action="leave it out"
            )
        if not checked:
            self._trial.shortest(given)
        limit = min(
            request.max_tokens, self.vllm_config.model_config.max_model_len - request.num_prompt_tokens
        )
        grammar = self._grammar(given, params.all_stop_token_ids, limit)
        write_mask(
            grammar, grammar.automaton.new_mask()
        )  # in this thread, so that no step of the engine waits for it
        return grammar

    def _grammar(self, given: dict[str, Any], stop_ids: set[int] | None, limit: int | None) -> VllmGrammar:
        return VllmGrammar(self.automata.compile(given, stop_ids), limit, self.masks, self._canonical)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Masks that allow everything, int32 ``[max_num_seqs, ceil(vocab_size / 32)]``."""
        return torch.full((max_num_seqs, -(-self.vocab_size // 32)), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Frees the automata and ends the sandbox."""
        self._trial.close()
        self.automata.clear()
