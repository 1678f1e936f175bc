"""Anthropic's Messages API: by the published order of events, and with its own client where it is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.server.serving import MODEL, Served, scripted, served
from tests.support.chat_templates import TemplateSpeaker

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Tells it.", "input_schema": CITY}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
SCRIPT = {
    "Error: no": "It failed.",
    "sunny": "It is sunny.",
    "weather?": "I look. " + CALL,
    "count": "one two three",
    "": "hello",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    def reply(prompt: str) -> str:
        return next(text for key, text in SCRIPT.items() if key in prompt)

    with served(scripted(reply), api_key="key") as running:
        yield running


def ask(server: Served, text: Any = "hi", **more: Any) -> httpx.Response:
    body = {
        "model": MODEL,
        "max_tokens": 200,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        **more,
    }
    path = more.pop("path", "/v1/messages")
    return server.post(path, {k: v for k, v in body.items() if k != "path"}, headers={"x-api-key": "key"})


def events(response: httpx.Response) -> list[dict[str, Any]]:
    found = []
    for block in response.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_text_with_a_system_prompt(server: Served) -> None:
    answer = ask(
        server,
        [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
        system=[{"type": "text", "text": "Be brief."}],
    ).json()
    assert (answer["type"], answer["role"], answer["content"]) == (
        "message",
        "assistant",
        [{"type": "text", "text": "hello"}],
    )
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    counted = ask(server, path="/v1/messages/count_tokens", system="Be brief.").json()
    assert counted == {"input_tokens": answer["usage"]["input_tokens"]}
    assert answer["usage"]["output_tokens"] > 0


def test_what_ends_a_text(server: Served) -> None:
    stopped = ask(server, "count", stop_sequences=["two", "four"]).json()
    assert (stopped["content"][0]["text"], stopped["stop_reason"], stopped["stop_sequence"]) == (
        "one ",
        "stop_sequence",
        "two",
    )
    cut = ask(server, "count", max_tokens=5).json()
    assert (cut["content"][0]["text"], cut["stop_reason"]) == ("one t", "max_tokens")


def test_a_tool_and_its_result(server: Served) -> None:
    answer = ask(server, "weather?", tools=[WEATHER], tool_choice={"type": "auto"}).json()
    text, called = answer["content"]
    assert (text["text"], called["name"], called["input"], answer["stop_reason"]) == (
        "I look. ",
        "weather",
        {"city": "Rome"},
        "tool_use",
    )
    for result, said in (
        ({"content": "sunny"}, "It is sunny."),
        ({"content": [{"type": "text", "text": "sunny"}]}, "It is sunny."),
        ({"content": "no", "is_error": True}, "It failed."),
    ):
        block = {"type": "tool_result", "tool_use_id": called["id"], **result}
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
        messages = [
            {"role": "user", "content": "weather?"},
            {
                "role": "assistant",
                "content": [thought, {"type": "redacted_thinking", "data": "x"}, *answer["content"]],
            },
            {"role": "user", "content": [block, {"type": "text", "text": "So?"}]},
        ]
        assert ask(server, messages=messages, tools=[WEATHER]).json()["content"][0]["text"] == said


@pytest.mark.parametrize(
    "choice", [{"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "weather"}]
)
def test_a_forced_call(server: Served, choice: Any) -> None:
    answer = ask(server, tools=[{**WEATHER, "type": "custom"}], tool_choice=choice).json()
    (called,) = answer["content"]
    assert set(called["input"]) == {"city"}
    assert [
        one["type"]
        for one in ask(server, "weather?", tools=[WEATHER], tool_choice={"type": "none"}).json()["content"]
    ] == ["text"]


@pytest.mark.parametrize("field", ["output_format", "output_config"])
def test_structured_output(server: Served, field: str) -> None:
    form = {"type": "json_schema", "schema": CITY}
    more: dict[str, Any] = {field: form if field == "output_format" else {"format": form, "effort": "low"}}
    assert set(json.loads(ask(server, **more).json()["content"][0]["text"])) == {"city"}


def test_a_stream_has_the_published_order_of_events(server: Served) -> None:
    found = events(ask(server, "weather?", tools=[WEATHER], stream=True))
    kinds = [one["type"] for one in found if one["type"] != "content_block_delta"]
    block = ["content_block_start", "content_block_stop"]
    assert kinds == ["message_start", *block, *block, "message_delta", "message_stop"]
    assert [one["index"] for one in found if one["type"] == "content_block_start"] == [0, 1]
    deltas = [one["delta"] for one in found if one["type"] == "content_block_delta"]
    assert "".join(one.get("text", "") for one in deltas) == "I look. "
    assert json.loads("".join(one.get("partial_json", "") for one in deltas)) == {"city": "Rome"}
    assert found[0]["message"]["content"] == []
    ending = found[-2]
    assert ending["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert ending["usage"]["output_tokens"] > 0


def test_thinking_is_a_block_of_its_own() -> None:
    told = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Oslo."
    with served(TemplateSpeaker("openai-gpt-oss-120b", told)) as server:
        more = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
        thought, said = ask(server, "Where?", **more).json()["content"]
        assert (thought["type"], thought["thinking"], said["text"]) == ("thinking", "Hm.", "Oslo.")
        deltas = [
            one["delta"]["type"]
            for one in events(ask(server, "Where?", stream=True, **more))
            if one["type"] == "content_block_delta"
        ]
        assert list(dict.fromkeys(deltas)) == ["thinking_delta", "signature_delta", "text_delta"]


@pytest.mark.parametrize(
    ("more", "status", "kind", "shown"),
    [
        ({"model": "other"}, 404, "not_found_error", "does not exist"),
        (
            {"output_format": {"type": "json_schema", "schema": {"type": "wrong"}}},
            400,
            "invalid_request_error",
            "#/type",
        ),
        (
            {"tools": [{"type": "bash_20250124", "name": "bash"}]},
            400,
            "invalid_request_error",
            "tools[0].type",
        ),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}},
            400,
            "invalid_request_error",
            "unknown tool",
        ),
        (
            {"messages": [{"role": "assistant", "content": "The"}]},
            400,
            "invalid_request_error",
            "cannot be continued",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            400,
            "invalid_request_error",
            "an image needs a source",
        ),
        ({"stop": ["a"]}, 400, "invalid_request_error", "stop: is not a field"),
        ({"container": "c"}, 400, "invalid_request_error", "container"),
        ({"nonsense": 1}, 400, "invalid_request_error", "nonsense: is unknown"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 400, "invalid_request_error", "thinking"),
    ],
)
def test_refusals_have_the_body_of_this_api(
    server: Served, more: Any, status: int, kind: str, shown: str
) -> None:
    refused = ask(server, **more)
    body = refused.json()
    assert (refused.status_code, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert shown in body["error"]["message"]


def test_a_wrong_key(server: Served) -> None:
    refused = server.post("/v1/messages", {}, headers={"x-api-key": "wrong"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")


# ---------------------------------------------------------------- the client


@pytest.mark.ci  # to import the client takes three seconds
def test_the_client_reads_messages_streams_tools_and_schemas(server: Served) -> None:
    import anthropic
    from pydantic import BaseModel

    class City(BaseModel):
        city: str

    with anthropic.Anthropic(base_url=server.url, api_key="key", max_retries=0) as opened:
        client: Any = opened  # dicts in the place of its types, as users write them
        asked: dict[str, Any] = {"model": MODEL, "max_tokens": 200, "extra_body": {"temperature": 0}}
        question = [{"role": "user", "content": "weather?"}]
        answer = client.messages.create(messages=question, tools=[WEATHER], **asked)
        called = answer.content[1]
        assert (answer.stop_reason, called.input) == ("tool_use", {"city": "Rome"})
        result = {"type": "tool_result", "tool_use_id": called.id, "content": "sunny"}
        turns = [
            *question,
            answer.to_param()
            if hasattr(answer, "to_param")
            else {"role": "assistant", "content": answer.content},
        ]
        later = client.messages.create(
            messages=[*turns, {"role": "user", "content": [result]}], tools=[WEATHER], **asked
        )
        assert later.content[0].text == "It is sunny."
        with client.messages.stream(messages=question, tools=[WEATHER], **asked) as stream:
            texts = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert (texts, final.content[1].input, final.stop_reason) == (
            "I look. ",
            {"city": "Rome"},
            "tool_use",
        )
        parsed = client.messages.parse(
            messages=[{"role": "user", "content": "hi"}], output_format=City, **asked
        )
        assert isinstance(parsed.parsed_output, City)
        assert client.messages.count_tokens(model=MODEL, messages=question).input_tokens > 0
        with pytest.raises(anthropic.NotFoundError, match="does not exist"):
            client.messages.create(messages=question, **{**asked, "model": "other"})
