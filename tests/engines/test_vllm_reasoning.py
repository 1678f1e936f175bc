"""Reasoning over HTTP: vLLM's server and reasoning parsers with a model that ends its reasoning by itself.

What the server answers is compared with what the same model writes here: reasoning without a constraint, then a completion under
the constraint within the tokens that are left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from openai import OpenAI

import constrained
from constrained import Generator
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.models import LanguageModel
from tests.engines.vllm_http import vllm_server
from tests.engines.vllm_worker import DRAFTS, NGRAM
from tests.support.thinking_model import END, write_thinking_model

# vLLM's parser for Qwen 3 removes ``</think>`` inside of the answer too, where a free string may contain it.
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z ]{1,20}$"},
        "born": {"type": "integer", "minimum": 0, "maximum": 2030},
    },
    "required": ["name", "born"],
    "additionalProperties": False,
}
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "json": {"json": PERSON},
    "regex": {"regex": "(ab|c)+[0-9]{2,4}"},
    "choice": {"choice": ["yes", "no", "maybe"]},
    "gbnf": {"grammar": 'root ::= "a" root "b" | "c"'},
    "lark": {"grammar": 'start: "x" start | WORD\nWORD: /[ab]{1,3}/'},
}
ASKS = ["Ana Novak was born in 1987.", "Jan Dvorak was born in 1990 in Praha."]
SERVERS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "deepseek_r1": ("deepseek_r1", None),
    "qwen3": ("qwen3", None),
    "deepseek_r1-ngram": ("deepseek_r1", NGRAM),
    "qwen3-ngram": ("qwen3", NGRAM),
    "qwen3-ours": ("qwen3", DRAFTS),
}
"""A parser of vLLM that reads texts and one that reads tokens; n-grams propose the end of reasoning inside of a draft."""


class Completion(NamedTuple):
    reasoning: str
    content: str
    finish: str


class Thinking:
    """What the model writes, decoded here."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.end = model.tokenizer.convert_tokens_to_ids(END)

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        text = self.model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids: list[int] = self.model.tokenizer.encode(text)
        return ids

    def reasoning(self, messages: list[dict[str, str]]) -> list[int]:
        """Greedy tokens up to and with the end of reasoning."""
        unread, written = self.prompt(messages), []
        cache = self.model.cache(1)
        while self.end not in written:
            assert len(written) < 60, "the model does not end its reasoning"
            written.append(int(np.argmax(self.model.forward([unread], cache)[0])))
            unread = written[-1:]
        return written

    def completion(self, messages: list[dict[str, str]], wanted: dict[str, Any], limit: int) -> Completion:
        """The whole answer; a token is kept for the end of sequence."""
        thought = self.reasoning(messages)
        generate = Generator(self.model, request_constraint(wanted), sampler="local")
        (done,) = generate.batch([self.prompt(messages) + thought], max_tokens=limit - len(thought) - 1)
        return Completion(self.model.tokenizer.decode(thought[:-1]), done.text, "stop")


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Thinking:
    return Thinking(constrained.load(str(write_thinking_model(tmp_path_factory.mktemp("thinking")))))


@pytest.fixture(scope="module", params=SERVERS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, thinking: Thinking
) -> Iterator[OpenAI]:
    parser, drafts = SERVERS[request.param]
    options = ["--reasoning-parser", parser]
    if drafts is not None:
        options += ["--speculative-config", json.dumps(drafts)]
    folder = tmp_path_factory.mktemp(request.param)
    environment = {"CONSTRAINED_VLLM": '{"always_draft": true}'}
    with vllm_server(write_thinking_model(folder / "model"), folder, options, environment) as running:
        yield running


def chat(client: OpenAI, messages: Any, wanted: dict[str, Any], *, stream: bool, **more: Any) -> Completion:
    answer: Any = client.chat.completions.create(
        model="tiny",
        messages=messages,
        stream=stream,
        extra_body={"structured_outputs": wanted},
        **{"temperature": 0, **more},
    )
    if not stream:
        message = answer.choices[0].message
        return Completion(message.reasoning or "", message.content or "", answer.choices[0].finish_reason)
    chunks = [chunk.choices[0] for chunk in answer if chunk.choices]
    return Completion(
        "".join(getattr(one.delta, "reasoning", None) or "" for one in chunks),
        "".join(one.delta.content or "" for one in chunks),
        chunks[-1].finish_reason,
    )


def accepted_drafts(client: OpenAI) -> float | None:
    """Draft tokens that the server has accepted; None if nothing drafts."""
    metrics = httpx.get(f"{str(client.base_url).removesuffix('/v1/')}/metrics").text
    found = re.search(r"^vllm:spec_decode_num_accepted_tokens_total\{.*\} (.+)$", metrics, re.MULTILINE)
    return None if found is None else float(found[1])


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("kind", CONSTRAINTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_constraint_begins_after_the_reasoning(
    client: OpenAI, thinking: Thinking, kind: str, *, stream: bool
) -> None:
    for text in ASKS:
        expected = thinking.completion(ask(text), CONSTRAINTS[kind], 90)
        assert expected.reasoning
        assert chat(client, ask(text), CONSTRAINTS[kind], stream=stream, max_tokens=90) == expected


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_end_of_reasoning_inside_of_a_draft(client: OpenAI, thinking: Thinking, *, stream: bool) -> None:
    """The prompt contains reasoning, its end and an answer, so n-grams propose them in one draft."""
    for name in ("json", "choice", "gbnf", "lark"):
        first = thinking.completion(ask(ASKS[0]), CONSTRAINTS[name], 90)
        messages = ask(f"{ASKS[0]} {first.reasoning}{END}{first.content}")
        prompt, thought = thinking.prompt(messages), thinking.reasoning(messages)
        assert any(prompt[i : i + 5] == thought[-5:] for i in range(len(prompt)))
        expected = thinking.completion(messages, CONSTRAINTS[name], 90)
        before = accepted_drafts(client)
        assert chat(client, messages, CONSTRAINTS[name], stream=stream, max_tokens=90) == expected
        if before is not None:
            assert accepted_drafts(client) > before


def test_completions_are_complete_within_max_tokens(client: OpenAI, thinking: Thinking) -> None:
    """From the least limit on; reasoning that leaves less room is an answer that vLLM cuts."""
    automaton = constrained.compile(request_constraint({"json": PERSON}), thinking.model.vocabulary)
    needed = automaton.shortest_completion(automaton.start)
    thought = len(thinking.reasoning(ask(ASKS[0])))
    for room in range(needed + 1, needed + 8):
        expected = thinking.completion(ask(ASKS[0]), CONSTRAINTS["json"], thought + room)
        assert set(json.loads(expected.content)) == {"name", "born"}
        got = chat(client, ask(ASKS[0]), CONSTRAINTS["json"], stream=False, max_tokens=thought + room)
        assert got == expected
    cut = chat(client, ask(ASKS[0]), CONSTRAINTS["json"], stream=False, max_tokens=thought + needed - 2)
    assert cut.finish == "length"


def test_drawn_completions_are_valid(client: OpenAI) -> None:
    complete = 0
    for seed in range(12):
        done = chat(
            client,
            ask(ASKS[seed % 2]),
            {"regex": "(ab|c)+[0-9]{2,4}"},
            stream=bool(seed % 3),
            max_tokens=120,
            temperature=0.7,
            seed=seed,
        )
        if done.content:
            assert done.finish == "stop"
            assert re.fullmatch("(ab|c)+[0-9]{2,4}", done.content)
            complete += 1
    # With drafts, vLLM on the CPU draws at wrong temperatures, and reasoning often does not end: see docs/serving.md.
    assert complete >= 6 or accepted_drafts(client) is not None


def test_response_formats_and_refusals(client: OpenAI, thinking: Thinking) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    expected = thinking.completion(ask(ASKS[0]), CONSTRAINTS["json"], 90)
    message = client.chat.completions.create(
        model="tiny", messages=ask(ASKS[0]), max_tokens=90, temperature=0, response_format=form
    )
    assert message.choices[0].message.content == expected.content
    with pytest.raises(Exception, match="max_tokens is 9"):
        chat(client, ask(ASKS[0]), CONSTRAINTS["json"], stream=False, max_tokens=9)
