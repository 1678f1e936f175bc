"""vLLM's HTTP server in processes of its own, with the real openai client."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openai import APIError, APIStatusError, BadRequestError, OpenAI

from constrained.models.tiny import WEIGHTS
from tests.engines.vllm_http import vllm_server

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "born": {"type": "integer", "minimum": 0, "maximum": 2030},
    },
    "required": ["name", "born"],
    "additionalProperties": False,
}
ASK: list[Any] = [{"role": "user", "content": "Ana Novak was born in 1987."}]
TOOL: Any = {"type": "function", "function": {"name": "save", "parameters": PERSON, "strict": True}}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    options = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    settings = {"CONSTRAINED_VLLM": json.dumps({"compile_seconds": 3})}
    with vllm_server(WEIGHTS, tmp_path_factory.mktemp("vllm"), options, settings) as running:
        yield running


def chat(client: OpenAI, structured: dict[str, Any] | None = None, **more: Any) -> Any:
    body = {**({"structured_outputs": structured} if structured else {}), **more.pop("extra", {})}
    options = {"model": "tiny", "messages": ASK, "max_tokens": 100, "temperature": 0, **more}
    return client.chat.completions.create(**options, extra_body=body)


def refused(client: OpenAI, structured: dict[str, Any] | None = None, **more: Any) -> str:
    with pytest.raises(BadRequestError) as error:
        chat(client, structured, **more)
    return str(error.value)


def check_person(text: str) -> None:
    value = json.loads(text)
    assert set(value) == {"name", "born"}
    assert isinstance(value["born"], int)


def test_response_formats(client: OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    choice = chat(client, response_format=form).choices[0]
    check_person(choice.message.content)
    assert choice.finish_reason == "stop"
    assert isinstance(
        json.loads(chat(client, response_format={"type": "json_object"}).choices[0].message.content), dict
    )


@pytest.mark.parametrize(
    ("structured", "pattern"),
    [
        ({"regex": "(ab|c)+[0-9]{2,4}"}, "(ab|c)+[0-9]{2,4}"),
        ({"choice": ["yes", "no"]}, "yes|no"),
        ({"grammar": 'start: "x" start | WORD\nWORD: /[ab]{1,3}/'}, "x*[ab]{1,3}"),
        ({"grammar": 'root ::= "a" root "b" | "c"'}, "a*cb*"),
    ],
    ids=["regex", "choice", "lark", "gbnf"],
)
def test_structured_outputs(client: OpenAI, structured: dict[str, Any], pattern: str) -> None:
    for seed in range(3):
        choice = chat(client, structured, temperature=1.5, seed=seed, max_tokens=40).choices[0]
        assert re.fullmatch(pattern, choice.message.content)
        assert choice.finish_reason == "stop"


def test_a_stream_has_the_text_of_the_plain_completion(client: OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    whole = chat(client, response_format=form).choices[0].message.content
    chunks = chat(client, response_format=form, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole


@pytest.mark.parametrize(
    "wanted", ["required", {"type": "function", "function": {"name": "save"}}], ids=["required", "named"]
)
def test_tool_calls(client: OpenAI, wanted: Any) -> None:
    message = chat(client, tools=[TOOL], tool_choice=wanted, max_tokens=200).choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["save"] * len(message.tool_calls)
    for call in message.tool_calls:
        check_person(call.function.arguments)


def test_refusals_are_400_with_the_place(client: OpenAI) -> None:
    pattern = {"properties": {"a": {"items": {"pattern": "(a)\\1"}}}}
    assert "#/properties/a/items/pattern" in refused(client, {"json": pattern})
    assert "max_tokens is 20" in refused(
        client, {"json": {"type": "string", "minLength": 300}}, max_tokens=20
    )
    assert "no value satisfies the schema" in refused(client, {"json": {"not": {}}})
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "text"}}}
    assert "#/type" in refused(client, response_format=form)
    assert "back-reference" in refused(client, {"regex": "(a)\\1"})
    with pytest.raises(APIError, match="back-reference"):  # vLLM checks when its stream has begun
        list(chat(client, {"regex": "(a)\\1"}, stream=True))
    assert "beam search" in refused(client, {"regex": "a"}, n=2, extra={"use_beam_search": True})
    with pytest.raises(BadRequestError, match="the sampler 'cars' does not run inside vLLM"):
        client.chat.completions.create(
            model="tiny",
            messages=ASK,
            extra_body={"structured_outputs": {"regex": "a"}, "vllm_xargs": {"sampler": "cars"}},
        )
    assert chat(client, {"choice": ["alive"]}).choices[0].message.content == "alive"


def test_a_request_with_several_constraints_is_refused(client: OpenAI) -> None:
    """None of them is dropped in silence."""
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    assert "one" in refused(client, {"json": PERSON, "regex": "[ab]{2}"})
    assert "one" in refused(client, {"json": PERSON, "choice": ["a"], "grammar": 'root ::= "a"'})
    assert refused(client, {"regex": "[ab]{2}"}, response_format=form)
    assert "must not end before 5" in refused(client, {"regex": "[ab]{2,9}"}, extra={"min_tokens": 5})
    assert chat(client, {"choice": ["alive"]}).choices[0].message.content == "alive"


def test_hostile_and_huge_constraints_cost_a_bounded_time(client: OpenAI) -> None:
    chain = "\n".join(f'r{i} ::= r{i + 1} | "a{i}"' for i in range(33_000))
    hostile = {"grammar": f'root ::= r0\n{chain}\nr33000 ::= "b"'}
    began = time.monotonic()
    assert "not compiled within 3 seconds" in refused(client, hostile)
    assert time.monotonic() - began < 60
    assert "the limit is 1048576" in refused(client, {"choice": ["x" * 2_000_000]})
    deep: Any = {}
    for _ in range(300):
        deep = {"anyOf": [deep, {"type": "integer"}]}
    with pytest.raises((BadRequestError, APIStatusError)):
        chat(client, {"json": {"allOf": [deep] * 20, "pattern": "("}})
    assert chat(client, {"choice": ["alive"]}).choices[0].message.content == "alive"


def test_clients_that_go_away_do_not_disturb_others(client: OpenAI) -> None:
    def leave(seed: int) -> None:
        stream = chat(
            client, {"json": {"type": "string", "minLength": 500}}, stream=True, max_tokens=900, seed=seed
        )
        next(iter(stream))
        stream.close()

    def stay(seed: int) -> str:
        content: str = chat(client, {"json": PERSON}, temperature=1.0, seed=seed).choices[0].message.content
        return content

    alone = [stay(seed) for seed in range(3)]
    with ThreadPoolExecutor(6) as pool:
        left = [pool.submit(leave, seed) for seed in range(3)]
        together = list(pool.map(stay, range(3)))
        for one in left:
            one.result()
    for text in [*alone, *together]:
        check_person(text)
    assert chat(client, {"choice": ["alive"]}).choices[0].message.content == "alive"
