"""The Responses API, with the real OpenAI client; and tokens of texts and chats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from pydantic import BaseModel

from tests.server.serving import MODEL, Served, scripted, served
from tests.support.chat_templates import TemplateSpeaker


class Person(BaseModel):
    name: str
    age: int


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: dict[str, Any] = {"type": "function", "name": "weather", "description": "", "parameters": CITY}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
SCRIPT = {
    "sunny": "It is sunny.",
    "person": '{"name": "Ada", "age": 36}',
    "weather": "I look. " + CALL,
    "": "hello",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    def reply(prompt: str) -> str:
        body = prompt.rpartition("</tool_call>")[2]
        return next(text for key, text in SCRIPT.items() if key in body)

    with served(scripted(reply)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[OpenAI]:
    with server.openai() as made:
        yield made


def test_a_text(client: OpenAI) -> None:
    answer = client.responses.create(model=MODEL, input="Hi", instructions="Be brief.", temperature=0)
    assert (answer.output_text, answer.status, answer.store) == ("hello", "completed", False)
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    parts: Any = [{"role": "user", "content": [{"type": "input_text", "text": "a person?"}]}]
    assert client.responses.create(model=MODEL, input=parts, temperature=0).output_text == SCRIPT["person"]


def test_a_schema_is_held_and_parsed(client: OpenAI) -> None:
    parsed = client.responses.parse(model=MODEL, input="a person?", text_format=Person, temperature=0)
    assert parsed.output_parsed == Person(name="Ada", age=36)
    held = client.responses.create(
        model=MODEL,
        input="no JSON",
        temperature=0,
        text={"format": {"type": "json_schema", "name": "city", "schema": CITY}},
    )
    assert set(json.loads(held.output_text)) >= {"city"}
    tagged = client.responses.create(
        model=MODEL, input="x", temperature=0, extra_body={"structured_outputs": {"choice": ["yes", "no"]}}
    )
    assert tagged.output_text in ("yes", "no")


def test_a_tool_is_called_and_its_result_is_read(client: OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="weather?", tools=[WEATHER], temperature=0)
    text, called = first.output
    assert (text.type, called.type) == ("message", "function_call")
    assert (called.name, json.loads(called.arguments)) == ("weather", {"city": "Rome"})
    history: Any = [
        {"role": "user", "content": "weather?"},
        *(item.model_dump(exclude_none=True) for item in first.output),
        {"type": "function_call_output", "call_id": called.call_id, "output": "sunny"},
    ]
    second = client.responses.create(model=MODEL, input=history, tools=[WEATHER], temperature=0)
    assert second.output_text == "It is sunny."
    for choice in (
        "required",
        {"type": "function", "name": "weather"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]},
    ):
        forced = client.responses.create(
            model=MODEL, input="x", tools=[WEATHER], tool_choice=choice, temperature=0
        )  # type: ignore[call-overload]
        assert forced.output[0].type == "function_call"
    none = client.responses.create(
        model=MODEL, input="weather?", tools=[WEATHER], tool_choice="none", temperature=0
    )
    assert [item.type for item in none.output] == ["message"]


def test_a_stream_is_a_sequence_of_events(client: OpenAI) -> None:
    with client.responses.stream(model=MODEL, input="weather?", tools=[WEATHER], temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == list(
        range(len(events))
    )
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    arguments = "".join(
        event.delta for event in events if event.type == "response.function_call_arguments.delta"
    )
    assert (text, json.loads(arguments)) == ("I look. ", {"city": "Rome"})
    for kind in ("output_item.added", "output_item.done"):
        assert kinds.count(f"response.{kind}") == 2
    assert [item.type for item in final.output] == ["message", "function_call"]
    with client.responses.stream(model=MODEL, input="a person?", text_format=Person, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == Person(name="Ada", age=36)


def test_reasoning_is_an_item_of_its_own() -> None:
    told = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Oslo."
    with served(TemplateSpeaker("openai-gpt-oss-120b", told)) as server, server.openai() as client:
        answer = client.responses.create(
            model=MODEL, input="Where?", reasoning={"effort": "low"}, temperature=0
        )
        thought, said = answer.output
        assert (thought.type, thought.content[0].text) == ("reasoning", "Hm.")
        assert (said.type, answer.output_text) == ("message", "Oslo.")
        assert answer.usage.output_tokens_details.reasoning_tokens > 0
        stream = client.responses.create(
            model=MODEL, input="Where?", reasoning={"effort": "low"}, temperature=0, stream=True
        )
        deltas = [event for event in stream if event.type.endswith(".delta")]
        assert deltas[0].type == "response.reasoning_text.delta"
        assert "".join(event.delta for event in deltas) == "Hm.Oslo."


def test_a_response_at_the_token_limit_is_incomplete(client: OpenAI) -> None:
    cut = client.responses.create(model=MODEL, input="x", max_output_tokens=2, temperature=0)
    assert (cut.status, cut.output_text) == ("incomplete", "he")
    assert cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["web_search_call.results"]}, "include"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        (
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "x"}}}},
            "text.format.schema",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"frequency_penalty": 3.0}, "frequency_penalty"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"n": 2}, "n"),
        ({"colour": 1}, "colour"),
    ],
)
def test_what_is_not_done_is_refused_by_name(client: OpenAI, change: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.responses.create(model=MODEL, input="x", extra_body=change)
    assert caught.value.param == param


def test_tokens_of_texts_and_chats(server: Served) -> None:
    told = server.post("/tokenize", {"model": MODEL, "prompt": "naïve", "return_token_strs": True}).json()
    assert told["tokens"] == list("naïve".encode())
    assert told["count"] == 6
    assert server.post("/detokenize", {"tokens": told["tokens"]}).json()["prompt"] == "naïve"
    chat = server.post("/tokenize", {"messages": [{"role": "user", "content": "hi"}]}).json()
    usage = server.chat("hi").json()["usage"]
    assert chat["count"] == usage["prompt_tokens"]
    for path, body, param in (
        ("/tokenize", {"prompt": "a", "content": "b"}, "prompt"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model"),
        ("/detokenize", {"tokens": [10**6]}, "tokens"),
        ("/tokenize", {"prompt": "a", "colour": 1}, "colour"),
    ):
        answer = server.post(path, body)
        assert (answer.status_code // 100, answer.json()["error"]["param"]) == (4, param)


def test_log_probabilities_are_at_the_text_they_belong_to(client: OpenAI) -> None:
    wanted: dict[str, Any] = {"model": MODEL, "input": "a person?", "temperature": 0, "top_logprobs": 2}
    asked = {**wanted, "include": ["message.output_text.logprobs"]}
    answer: Any = client.responses.create(**asked)
    (content,) = answer.output[0].content
    assert "".join(token.token for token in content.logprobs) == content.text == SCRIPT["person"]
    assert {len(token.top_logprobs) for token in content.logprobs} == {2}
    assert all(token.top_logprobs[0].token == token.token for token in content.logprobs)
    events: list[Any] = list(client.responses.create(**wanted, stream=True))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    streamed = [token for event in deltas for token in event.logprobs]
    assert [(one.token, one.logprob) for one in streamed] == [
        (one.token, one.logprob) for one in content.logprobs
    ]
    assert all("".join(one.token for one in event.logprobs) == event.delta for event in deltas)
    plain: Any = client.responses.create(model=MODEL, input="a person?", temperature=0)
    assert plain.output[0].content[0].logprobs == []


def test_log_probabilities_beside_a_call_are_those_of_the_message(client: OpenAI) -> None:
    answer: Any = client.responses.create(
        model=MODEL,
        input="weather?",
        tools=[WEATHER],
        temperature=0,
        include=["message.output_text.logprobs"],
    )
    message, call = answer.output
    assert call.name == "weather"
    shown = "".join(token.token for token in message.content[0].logprobs)
    assert shown.startswith("I look.")
    assert "<tool_call>" not in shown
