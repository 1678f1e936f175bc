"""Requests through vLLM's manager of structured outputs with a model that draws uniformly, without an engine.

python -m tests.engines.vllm_flow, with the Python of any vLLM on the path: its kernels are not needed.
"""

from __future__ import annotations

import json
import os
import random
import time
from types import SimpleNamespace
from typing import Any

import pytest

import constrained
from constrained.automaton.bitmask import allow_only, unpack_ids
from constrained.automaton.forced_tokens import forced_within
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.integrations.vllm.request_fields import request_fields

DRAFTS = 3
END = 9
REASONING = [40, 41, END]
KINDS: list[dict[str, Any]] = [
    {"json": {"properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["a"]}},
    {"json_object": True},
    {"regex": "(ab|c)+[0-9]{2,4}"},
    {"choice": ["yes", "no", "maybe"]},
    {"grammar": 'root ::= "a" root "b" | "c"'},
    {
        "structural_tag": json.dumps(
            {"type": "structural_tag", "format": {"type": "const_string", "value": "ab"}}
        )
    },
]


def main() -> None:
    """Every kind of constraint in one batch, with draft tokens of which some are wrong, and refusals."""
    os.environ["CONSTRAINED_VLLM"] = "1"
    import vllm
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import StructuredOutputsParams
    from vllm.v1 import structured_output
    from vllm.v1.engine import core
    from vllm.v1.request import Request

    from constrained.integrations.vllm import register

    register()
    model = constrained.load()
    size = model.vocabulary.size
    flags = {"disable_any_whitespace": False, "disable_additional_properties": False}
    outputs = {
        "backend": "auto",
        "reasoning_parser": "",
        "reasoning_parser_plugin": "",
        "enable_in_reasoning": False,
    }
    config: Any = SimpleNamespace(
        model_config=SimpleNamespace(
            skip_tokenizer_init=False, get_vocab_size=lambda: size, max_model_len=500, is_diffusion=False
        ),
        structured_outputs_config=SimpleNamespace(**outputs, **flags),
        scheduler_config=SimpleNamespace(max_num_seqs=8, async_scheduling=False),
        parallel_config=SimpleNamespace(distributed_executor_backend=None),
        speculative_config=SimpleNamespace(
            num_speculative_tokens=DRAFTS, model="other", use_ngram_gpu=lambda: False
        ),
        num_speculative_tokens=DRAFTS,
    )
    structured_output.cached_tokenizer_from_config = lambda model_config: model.tokenizer  # type: ignore[attr-defined]
    manager: Any = core.StructuredOutputManager(config)
    assert type(manager).__name__ == "VllmManager"

    def request(name: str, limit: int = 60, **fields: Any) -> Any:
        params = SamplingParams(max_tokens=limit, structured_outputs=StructuredOutputsParams(**fields))
        params.update_from_generation_config({}, eos_token_id=0)
        params._validate_structured_outputs(
            config.model_config, config.structured_outputs_config, model.tokenizer
        )
        made = Request(name, [5], params, None)
        manager.grammar_init(made)
        while not made.structured_output_request.is_grammar_ready:
            time.sleep(0.01)
        return made

    for fields, limit, message in (
        ({"regex": "(a)\\1"}, 60, "back-reference"),
        ({"regex": "a{90,}"}, 60, "max_tokens is 60"),
        ({"json": {"properties": {"a": {"type": "text"}}}}, 60, "#/properties/a/type"),
    ):
        with pytest.raises(VLLMValidationError, match=message):
            request("refused", limit, **fields)

    rng = random.Random(3)
    run(manager, {str(i): request(str(i), **kind) for i, kind in enumerate(KINDS)}, rng)
    config.num_speculative_tokens = 0
    run(manager, {str(i): request(str(i), **kind) for i, kind in enumerate(KINDS)}, rng)
    config.num_speculative_tokens = DRAFTS
    manager.reasoner_cls = Reasoner
    for limit in (16, 17, 20, 40):
        run(manager, {str(i): request(str(i), limit, **kind) for i, kind in enumerate(KINDS)}, rng)
    # One token decides whether the completion fits, also where the draft contains the end of reasoning.
    for limit in range(11, 20):
        run(manager, {str(i): request(str(i), limit, choice=["1", "1234567890"]) for i in range(8)}, rng)
    manager.ours.destroy()
    print(f"vLLM {vllm.__version__}: all as expected")


class Reasoner:
    """A reasoning parser: reasoning ends with the token `END`."""

    def __init__(self, tokenizer: Any) -> None:
        pass

    def is_reasoning_end(self, input_ids: Any) -> bool:
        return False

    def is_reasoning_end_streaming(self, input_ids: Any, delta_ids: Any) -> bool:
        return END in delta_ids


def run(manager: Any, requests: dict[str, Any], rng: random.Random) -> None:
    """Writes all requests with draft tokens, and compares each mask with that of the automaton within the token limit."""
    size = manager.ours.automata.vocabulary.size
    automata = {
        name: constrained.compile(
            request_constraint(request_fields(one.sampling_params.structured_outputs)),
            manager.ours.automata.vocabulary,
        )
        for name, one in requests.items()
    }
    reasons, drafted = manager.reasoner_cls is not None, manager.vllm_config.num_speculative_tokens
    live = dict(requests)
    while live:
        drafts = {}
        for name, one in live.items():
            wanted: list[int] = []
            for _ in range(rng.randrange(drafted + 1)):
                allowed = _allowed(automata[name], [*one.output_token_ids, *wanted], reasons=reasons)
                wrong = not allowed or rng.random() > 0.8
                wanted.append(rng.randrange(1, size) if wrong else rng.choice(allowed))
            valid = manager.validate_tokens(one, list(wanted))
            assert wanted[: len(valid)] == valid
            drafts[name] = valid
        masks = manager.grammar_bitmask(live, list(live), drafts)
        row = 0
        stride = len(masks) // len(live) if len(masks) == len(live) * (drafted + 1) else None
        for place, (name, one) in enumerate(list(live.items())):
            automaton, written = automata[name], list(one.output_token_ids)
            row = place * stride if stride else row
            for count in range(len(drafts[name]) + 1):
                prefix = [*written, *drafts[name][:count]]
                expected = automaton.new_mask()
                state = _state(automaton, prefix, reasons=reasons)
                if state is None:  # reasoning is free, but for the end of sequence
                    expected[:] = -1
                    expected[0] &= ~1
                else:
                    budget = one.max_tokens - 1 - len(prefix)
                    forced = forced_within(automaton, state, budget)
                    if forced is None:
                        automaton.fill_mask_within(state, expected, budget)
                    else:
                        allow_only(expected, forced)
                assert (masks[row + count] == expected).all(), (name, count, prefix)
            ids = unpack_ids(masks[row + len(drafts[name])]).tolist()
            if _state(automaton, [*written, *drafts[name]], reasons=reasons) is None:
                ids = _reasoning([*written, *drafts[name]])
            new = [*drafts[name], rng.choice(ids)]
            row += len(new)
            one.append_output_token_ids(new)
            assert manager.accept_tokens(one, new)
            if new[-1] == 0:
                del live[name]
    for name, one in requests.items():
        *written, end = one.output_token_ids
        assert end == 0
        assert len(written) < one.max_tokens
        state = _state(automata[name], written, reasons=reasons)
        assert state is not None
        assert automata[name].accepts(state)
        assert one.structured_output_request.grammar.is_terminated()


def _state(automaton: Any, tokens: list[int], *, reasons: bool) -> int | None:
    """The state after all tokens; None while a request reasons."""
    if reasons:
        if END not in tokens:
            return None
        tokens = tokens[tokens.index(END) + 1 :]
    state: int = [automaton.start, *automaton.walk(automaton.start, tokens)][-1]
    return state


def _reasoning(tokens: list[int]) -> list[int]:
    """What a request that reasons writes next; it ends early enough for the limits of the requests."""
    return [END] if len(tokens) >= 4 else REASONING


def _allowed(automaton: Any, tokens: list[int], *, reasons: bool) -> list[int]:
    state = _state(automaton, tokens, reasons=reasons)
    if state is None:
        return _reasoning(tokens)
    return [token for token in range(1, automaton.vocabulary.size) if automaton.next(state, token)]


if __name__ == "__main__":
    main()
