"""Tools over the loopback, for models that write calls with special tokens of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import OpenAI

from constrained.chat.detect import detect_formats
from constrained.chat.tool_format_probe import FORMATS, detect_tool_format
from tests.server.serving import MODEL, served
from tests.support.chat_templates import CALLS as PUBLISHED_CALLS
from tests.support.chat_templates import TOOLS as PUBLISHED
from tests.support.chat_templates import TemplateSpeaker
from tests.support.speaking import ARGS, FENCED, HEADED, LIST, TAGGED, TOOLS, Speaker, speaker
from tests.tools.chat_templates import rendered_calls

ASKED: list[Any] = [{"type": "function", "function": tool} for tool in TOOLS]
SHAPES = {"list": LIST, "args": ARGS, "headed": HEADED, "tagged": TAGGED, "fenced": FENCED}


def ask(client: OpenAI, tools: Any = ASKED, **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": "Weather?"}]
    return client.chat.completions.create(model=MODEL, messages=messages, tools=tools, temperature=0, **more)


@pytest.mark.ci
@pytest.mark.parametrize("shape", SHAPES)
def test_the_format_is_that_of_the_template(shape: str) -> None:
    format = detect_tool_format(speaker(SHAPES[shape]))
    calls = [("weather", '{"city": "Rome"}'), ("weather_map", '{"a": 1}')][: 1 if format.single else 2]
    model = speaker(SHAPES[shape], "I look. " + format.format_calls(*calls))
    with served(model) as server, server.openai() as client:
        choice = ask(client).choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "I look. "
        reply = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls]
        assert reply == calls
        with ask(client, stream=True) as stream:
            deltas = [chunk.choices[0].delta for chunk in stream]
        assert "".join(delta.content or "" for delta in deltas) == "I look. "
        parts = [call for delta in deltas for call in delta.tool_calls or ()]
        for index, (name, arguments) in enumerate(calls):
            own = [part.function for part in parts if part.index == index]
            assert own[0].name == name
            assert "".join(part.arguments or "" for part in own) == arguments


@pytest.mark.ci
@pytest.mark.parametrize("name", ["openai-gpt-oss-120b", "Qwen3-Coder", "MiniMax-M2", "Kimi-K3"])
def test_calls_of_published_templates_over_the_wire(name: str) -> None:
    """In one piece and in a stream, in markup or in channels of their own."""
    model = TemplateSpeaker(name)
    formats = detect_formats(model, tools=True)
    calls = PUBLISHED_CALLS[: 1 if formats.tools.single else 2]
    told = formats.frame.lead + rendered_calls(model, formats.tools, len(calls))
    with served(TemplateSpeaker(name, told)) as server, server.openai() as client:
        choice = ask(client, tools=PUBLISHED).choices[0]
        assert choice.finish_reason == "tool_calls"
        got = [
            (call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls
        ]
        assert (choice.message.content, got) == (None, calls)
        with ask(client, tools=PUBLISHED, stream=True) as stream:
            deltas = [chunk.choices[0].delta for chunk in stream]
        assert not any(delta.content for delta in deltas)
        parts = [call for delta in deltas for call in delta.tool_calls or ()]
        for index, (_, arguments) in enumerate(calls):
            text = "".join(part.function.arguments or "" for part in parts if part.index == index)
            assert json.loads(text) == arguments


def test_an_unknown_tool_format_concerns_only_requests_with_tools() -> None:
    model = Speaker(TAGGED.replace("<tool_call>", "<|channel|>commentary"), "hello")
    with served(model) as server:
        assert server.chat().json()["choices"][0]["message"]["content"] == "hello"
        answer = server.chat(tools=ASKED)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools")
        assert "channels" in answer.json()["error"]["message"]
    with served(model, format=FORMATS["hermes"]) as server:
        assert server.chat(tools=ASKED).status_code == 200
