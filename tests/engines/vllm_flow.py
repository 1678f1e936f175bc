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
from constrained.automaton.bitmask import unpack_ids
from constrained.integrations.engines.request_constraint import request_constraint

DRAFTS = 3
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
    automata = [constrained.compile(request_constraint(kind), model.vocabulary) for kind in KINDS]
    requests = {str(i): request(str(i), **kind) for i, kind in enumerate(KINDS)}
    live = dict(requests)
    while live:
        drafts = {}
        for name, one in live.items():
            automaton, written = automata[int(name)], list(one.output_token_ids)
            state = _state(automaton, written)
            wanted: list[int] = []
            for _ in range(rng.randrange(DRAFTS + 1)):
                allowed = [t for t in range(1, size) if automaton.next(state, t)] if state else []
                token = rng.choice(allowed) if allowed and rng.random() < 0.8 else rng.randrange(1, size)
                state = automaton.next(state, token) if state else 0
                wanted.append(token)
            valid = manager.validate_tokens(one, wanted)
            assert wanted[: len(valid)] == valid
            drafts[name] = valid
        masks = manager.grammar_bitmask(live, list(live), drafts)
        row = 0
        stride = len(masks) // len(live) if len(masks) == len(live) * (DRAFTS + 1) else None
        for place, (name, one) in enumerate(list(live.items())):
            automaton, written = automata[int(name)], list(one.output_token_ids)
            row = place * stride if stride else row
            for count in range(len(drafts[name]) + 1):
                prefix = [*written, *drafts[name][:count]]
                expected = automaton.new_mask()
                automaton.fill_mask_within(_state(automaton, prefix), expected, 59 - len(prefix))
                assert (masks[row + count] == expected).all(), (name, count)
            ids = unpack_ids(masks[row + len(drafts[name])]).tolist()
            new = [*drafts[name], rng.choice(ids)]
            row += len(new)
            one.append_output_token_ids(new)
            assert manager.accept_tokens(one, new)
            if new[-1] == 0:
                del live[name]
    for name, one in requests.items():
        *written, end = one.output_token_ids
        assert end == 0
        assert automata[int(name)].accepts(_state(automata[int(name)], written))
        assert one.structured_output_request.grammar.is_terminated()
    manager.ours.destroy()
    print(f"vLLM {vllm.__version__}: all as expected")


def _state(automaton: Any, tokens: list[int]) -> int:
    return [automaton.start, *automaton.walk(automaton.start, tokens)][-1]


if __name__ == "__main__":
    main()
