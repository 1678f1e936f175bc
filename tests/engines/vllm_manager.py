"""vLLM's manager, backend and front end with our classes, without an engine, over the bundled tokenizer with tokens added."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import constrained
from constrained.vocabulary import Vocabulary

SPECIAL = ("<|start|>", "</tool_call>")
PLAIN = ('"', "a", ' "', "b", '"}', ":", "{", "}", "z", " ", "\n", "X")
"""Tokens that the cases need as single ones."""
DRAFTS = 8
THINK_END = "\n"


class MarkerReasoner:
    """A reasoning parser: reasoning ends with a token, or has ended."""

    def __init__(self, tokenizer: Any, marker: int | None = None) -> None:
        self.marker = marker

    def is_reasoning_end(self, input_ids: Any) -> bool:
        return self.marker is None or self.marker in list(input_ids)

    def is_reasoning_end_streaming(self, input_ids: Any, delta_ids: Any) -> bool:
        return self.is_reasoning_end(delta_ids)


class Harness:
    """What the cases share.

    Attributes:
        tokenizer: the bundled one, with `SPECIAL` and `PLAIN`.
        size: tokens.
        end: the token that ends the sequence.
    """

    def __init__(self) -> None:
        from tokenizers import AddedToken
        from vllm.v1 import structured_output

        self.tokenizer = constrained.load().tokenizer
        missing = [text for text in PLAIN if len(self._encode(text)) != 1]
        self.tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in missing])
        self.tokenizer.add_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
        self.size = len(self.tokenizer)
        self.end: int = self.tokenizer.eos_token_id
        structured_output.cached_tokenizer_from_config = lambda model_config: self.tokenizer  # type: ignore[attr-defined]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        return self._encode(text)

    def token(self, text: str) -> int:
        """The id of a text that is one token."""
        (token,) = self._encode(text)
        return token

    def config(self, *, drafts: int = 0, sync: bool = False, **outputs: Any) -> Any:
        """What the manager and the backend read of vLLM's configuration."""
        flags = {"disable_any_whitespace": False, "disable_additional_properties": False}
        settings = {"backend": "auto", "reasoning_parser": "", "reasoning_parser_plugin": ""}
        return SimpleNamespace(
            model_config=SimpleNamespace(
                skip_tokenizer_init=False,
                get_vocab_size=lambda: self.size,
                max_model_len=4000,
                is_diffusion=False,
            ),
            structured_outputs_config=SimpleNamespace(
                **{"enable_in_reasoning": False, **settings, **flags, **outputs}
            ),
            scheduler_config=SimpleNamespace(max_num_seqs=8, async_scheduling=False),
            parallel_config=SimpleNamespace(
                distributed_executor_backend="external_launcher" if sync else None
            ),
            speculative_config=SimpleNamespace(num_speculative_tokens=drafts, model="[ngram]")
            if drafts
            else None,
            num_speculative_tokens=drafts,
        )

    def manager(self, **options: Any) -> Any:
        """Our subclass of vLLM's manager."""
        from constrained.integrations.engines.settings import VllmSettings
        from constrained.integrations.vllm.manager import VllmManager

        VllmManager.settings = VllmSettings()
        return VllmManager(self.config(**options))

    def backend(self, **outputs: Any) -> Any:
        """Our backend."""
        from constrained.integrations.engines.settings import VllmSettings
        from constrained.integrations.vllm.backend import VllmGrammarBackend

        return VllmGrammarBackend(self.config(**outputs), self.tokenizer, self.size, VllmSettings())

    def params(self, *, stop: set[int] | None = None, **structured: Any) -> Any:
        """vLLM's parameters of a request, marked as checked."""
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams

        params = SamplingParams(
            max_tokens=2000,
            stop_token_ids=list(stop or ()),
            structured_outputs=StructuredOutputsParams(**structured),
        )
        params.structured_outputs._backend = "constrained"  # type: ignore[union-attr]
        params.update_from_generation_config({}, self.end)
        return params

    def request(
        self, manager: Any, prompt: list[int] | None = None, *, params: Any = None, **fields: Any
    ) -> Any:
        """A request whose grammar is ready."""
        from vllm.v1.request import Request

        made = Request("case", prompt or [], params or self.params(json='{"type": "object"}'), None, **fields)
        manager.grammar_init(made)
        wait(made)
        return made


def wait(request: Any) -> None:
    """Waits for the grammar of a request."""
    end = time.monotonic() + 120
    while not request.structured_output_request.is_grammar_ready:
        assert time.monotonic() < end
        time.sleep(0.005)


def vocabulary(backend: Any) -> Vocabulary:
    """That of a backend."""
    found: Vocabulary = backend.automata.vocabulary
    return found
