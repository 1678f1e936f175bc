"""Extraction by vLLM in this process: its scheduler and kernels, our constraints by the plug-in (`constrained.integrations.vllm`).

    model = VllmModel("Qwen/Qwen3-0.6B")
    for extraction in Extractor(model, Order).many(documents): ...

Any constraint but a predicate reaches the engine, as its automaton: engine and extractor are one process. What vLLM wrote is
followed by the automaton once more, and its completions are those of `Extractor` with another model.
"""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

from constrained.automaton.cache import register
from constrained.decoding.allowed_tokens import AutomatonCandidates
from constrained.decoding.cut import locate_cut, truncated_error
from constrained.decoding.request_runner import BatchedRequest, RequestEngine, RequestRunner
from constrained.errors import InvalidArgument, ModelError, UnsupportedConstraint
from constrained.extras import require_extra
from constrained.models.prompt_model import PromptModel
from constrained.sampling import Draw, Local, Sampler
from constrained.vocabulary import Vocabulary

_MARGIN = 64
"""Tokens that vLLM may write beyond the token limit, so that its own haste near a limit changes no completion within ours."""


class VllmModel(PromptModel, RequestEngine):
    """A model in a vLLM engine of this process: an `Extractor` takes it, and a `Generator` alone cannot use it.

    Attributes:
        engine: vLLM's `LLMEngine`.
    """

    no_trees = no_chains = "the engine drafts by itself"

    def __init__(self, name: str | None = None, **options: Any) -> None:
        """Starts the engine, with the plug-in switched on.

        Args:
            name: name or folder of the model; None: the bundled one.
            options: of `vllm.LLM` (``max_model_len``, ``tensor_parallel_size``, ``dtype``, ...).

        Raises:
            ModelError: vLLM cannot load it, or does not load the plug-in.
            IncompatibleEngine: this version of vLLM lacks a name that the plug-in needs.
            VocabularyError: its tokens have no exact bytes.
            MissingExtra: vLLM is not installed.
        """
        os.environ.setdefault("CONSTRAINED_VLLM", "1")
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # automata are of one process
        with require_extra("vllm"):
            from vllm import LLM
        _check_plug_in()
        if name is None:
            from constrained.models.tiny import WEIGHTS

            name = str(WEIGHTS)
        try:
            llm = LLM(name, **{"disable_log_stats": True, **options})
        except Exception as error:
            raise ModelError(
                f"vLLM cannot load {name!r}: {' '.join(str(error).split())[:300]}",
                action="see what vLLM wrote above; its options are those of vllm.LLM",
            ) from error
        self.engine = llm.llm_engine
        config = self.engine.model_config
        tokenizer = llm.get_tokenizer()
        ends = config.try_get_generation_config().get("eos_token_id")
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        vocabulary = Vocabulary.from_tokenizer(
            tokenizer,
            size=config.get_vocab_size(),
            eos_ids={*ends, tokenizer.eos_token_id} - {None} or None,
        )
        # An end of sequence has a place of its own.
        super().__init__(vocabulary, tokenizer, config.max_model_len - 1)
        self._numbers = itertools.count()

    def runner(self, sampler: Sampler, max_rows: int, *, closes: bool) -> VllmRunner:
        """See `RequestEngine.runner`.

        Raises:
            InvalidArgument: another sampler than local masking.
        """
        if not isinstance(sampler, Local):
            raise InvalidArgument(
                f"the sampler {type(sampler).__name__.lower()} does not run inside vLLM, which draws tokens itself",
                action="leave it out, or leave engine out",
            )
        return VllmRunner(self, max_rows, 0 if closes else _MARGIN)

    def next_name(self) -> str:
        """A name for a request, which no other one has."""
        return f"constrained-{next(self._numbers)}"


def _check_plug_in() -> None:
    """Checks that this process has the plug-in: a constraint must not be another backend's.

    Raises:
        ModelError: it has not.
        IncompatibleEngine: this version of vLLM lacks a name that the plug-in needs.
    """
    from vllm.plugins import load_general_plugins
    from vllm.v1.engine import core

    load_general_plugins()  # before a model is loaded, which takes minutes
    if not core.StructuredOutputManager.__module__.startswith("constrained."):
        raise ModelError(
            "vLLM has not loaded the plug-in of this library",
            action="leave VLLM_PLUGINS unset or add constrained to it; CONSTRAINED_VLLM must not be 0",
        )


class VllmRunner(RequestRunner):
    """Requests in the engine of a `VllmModel`."""

    def __init__(self, model: VllmModel, max_rows: int, margin: int) -> None:
        """No requests yet.

        Args:
            model: whose engine decodes.
            max_rows: most requests that the caller adds; the engine itself waits for memory.
            margin: tokens that the engine may write beyond the limit of a request.
        """
        self.max_rows = max_rows
        self._model = model
        self._margin = margin
        self._members: dict[str, BatchedRequest] = {}
        self._failed: list[BatchedRequest] = []

    def __len__(self) -> int:
        """See `RequestRunner`."""
        return len(self._members) + len(self._failed)

    def add(self, member: BatchedRequest) -> None:
        """See `RequestRunner`; sends it to the engine at once."""
        name = self._model.next_name()
        try:
            self._send(name, member)
        except Exception as error:
            member.fail(error)
            self._failed.append(member)
        else:
            self._members[name] = member

    def step(self) -> list[BatchedRequest]:
        """See `RequestRunner`."""
        done, self._failed = self._failed, []
        gone = [name for name, member in self._members.items() if member.cancelled]
        if gone:
            self._model.engine.abort_request(gone)
            for name in gone:
                del self._members[name]
        if self._members and not done:
            done = self._stepped()
        return [member for member in done if not member.cancelled]

    def clear(self) -> None:
        """See `RequestRunner`."""
        if self._members:
            self._model.engine.abort_request(list(self._members))
        self._members.clear()
        self._failed.clear()

    def _stepped(self) -> list[BatchedRequest]:
        done = []
        for output in self._model.engine.step():
            member = self._members.get(output.request_id) if output.finished else None
            if member is None:
                continue
            del self._members[output.request_id]
            (completion,) = output.outputs
            try:
                self._follow(member, completion.token_ids, completion.finish_reason)
            except Exception as error:
                member.fail(error)
            member.finish()
            done.append(member)
        return done

    def _send(self, name: str, member: BatchedRequest) -> None:
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import StructuredOutputsParams

        request, automaton = member.request, member.generator.automaton
        if automaton.expensive_membership:
            raise UnsupportedConstraint(
                "a predicate does not run inside vLLM", action="leave engine out, or the predicate"
            )
        warp = request.params.warp
        if warp.adjusts:
            raise InvalidArgument(
                "logit_bias and penalties are not given to vLLM", action="leave them out, or engine"
            )
        if request.params.reasoning is not None:
            raise InvalidArgument(
                "vLLM does not end reasoning at a limit of ours", action="leave thinking out, or engine"
            )
        sampling: dict[str, Any] = {"temperature": 0.0}
        if not warp.greedy:
            seed = (request.seed ^ (request.sequence << 32)) & (2**63 - 1)
            sampling = {"temperature": warp.temperature, "top_k": warp.top_k or 0, "seed": seed}
            sampling |= {"top_p": warp.top_p or 1.0, "min_p": warp.min_p or 0.0}
        params = SamplingParams(
            **sampling,
            max_tokens=request.limit + self._margin + 1,
            detokenize=False,
            structured_outputs=StructuredOutputsParams(grammar=register(automaton)),
        )
        self._model.engine.add_request(name, TokensPrompt(prompt_token_ids=list(request.prompt)), params)

    def _follow(self, member: BatchedRequest, tokens: Any, reason: str | None) -> None:
        """Commits the engine's tokens to the sequence of a request.

        Raises:
            Truncated: the completion does not end within the token limit.
            ModelError: the engine ended the request, or wrote what the constraint does not allow.
        """
        sequence, automaton = member.sequence, member.generator.automaton
        for token in tokens:
            if sequence.finish:
                break
            hurried = self._candidates(member)
            # Not `sequence.candidates`: text that is forced has one spelling there, and vLLM may write another one.
            if not AutomatonCandidates(automaton, sequence.state, sequence.remaining_tokens).permits(token):
                if automaton.next(sequence.state, token) == 0:
                    break
                cut = locate_cut(automaton, sequence.tokens, sequence.limit, len(sequence.tokens), token)
                raise truncated_error(sequence.content.decode("utf-8", "ignore"), cut)
            if sequence.cut is None and hurried is not None and hurried.limit_excludes:
                sequence.cut = len(sequence.tokens), None
            sequence.commit(Draw(token, math.nan, 0.0))
        if not sequence.finish:
            raise ModelError(
                f"vLLM ended a request with {reason!r} after {len(sequence.tokens)} tokens",
                action="look for the reason in vLLM's log",
            )

    def _candidates(self, member: BatchedRequest) -> AutomatonCandidates | None:
        """What vLLM allowed next, if its token limit may have mattered; None where it cannot."""
        sequence, automaton = member.sequence, member.generator.automaton
        budget = sequence.remaining_tokens + self._margin
        if not automaton.limit_may_exclude(sequence.state, budget):
            return None
        allowed = AutomatonCandidates(automaton, sequence.state, budget)
        _ = allowed.ids
        return allowed
