"""Reasoning over the wire: apart from the content, within its budget, and before the constraint only."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from constrained.chat.messages import normalize_messages
from tests.server.serving import served
from tests.support.chat_templates import CITY, TOOLS, TemplateSpeaker

QWEN, GPT, MINIMAX = "Qwen-Qwen3-0.6B", "openai-gpt-oss-120b", "MiniMax-M2"
THOUGHT = "<think>\nRome? No: {Oslo}.\n</think>\n\n"
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": CITY}}
ON = {"chat_template_kwargs": {"enable_thinking": True}}


def test_reasoning_comes_first_and_is_free_and_the_constraint_holds_after_it() -> None:
    with served(TemplateSpeaker(QWEN, THOUGHT + '{"city": "Oslo"}')) as server:
        answer = server.chat(response_format=FORMAT, **ON).json()
        message = answer["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("Rome? No: {Oslo}.", '{"city": "Oslo"}')
        thought = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert 0 < thought < answer["usage"]["completion_tokens"]
        same = server.chat(response_format=FORMAT, enable_thinking=True).json()["choices"]
        assert same == answer["choices"]
        hidden = server.chat(response_format=FORMAT, include_reasoning=False, **ON).json()
        assert "reasoning_content" not in hidden["choices"][0]["message"]
        assert hidden["choices"][0]["message"]["content"] == '{"city": "Oslo"}'
        regex = server.chat(structured_outputs={"regex": '\\{"city": "[A-Z][a-z]+"\\}'}, **ON).json()
        assert regex["choices"][0]["message"] == message
        plain = server.chat(response_format=FORMAT).json()["choices"][0]["message"]
        assert "reasoning_content" not in plain
        jsonschema.validate(json.loads(plain["content"]), CITY)


@pytest.mark.parametrize("space", ["", "\n", "\n\n", " "])
def test_reasoning_ends_with_its_tag_whatever_white_space_the_model_writes_behind_it(space: str) -> None:
    told = f'<think>\nRome.\n</think>{space}{{"city": "Oslo"}}'
    with served(TemplateSpeaker(QWEN, told)) as server:
        answer = server.chat(response_format=FORMAT, max_tokens=200, **ON).json()["choices"][0]
    assert answer["message"]["reasoning_content"] == "Rome."
    jsonschema.validate(json.loads(answer["message"]["content"]), CITY)


def test_a_stream_has_reasoning_then_content() -> None:
    with served(TemplateSpeaker(QWEN, THOUGHT + "Oslo.")) as server, server.openai() as client:
        stream = client.chat.completions.create(
            model="told",
            messages=[{"role": "user", "content": "Where?"}],
            temperature=0,
            stream=True,
            extra_body=ON,
        )
        deltas = [chunk.choices[0].delta for chunk in stream]
        kinds = ["thought" if getattr(delta, "reasoning_content", None) else "said" for delta in deltas]
        thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        assert thought == "Rome? No: {Oslo}."
        assert "".join(delta.content or "" for delta in deltas) == "Oslo."
        assert kinds.index("thought") < len(kinds) - kinds[::-1].index("thought") <= kinds.index("said", 1)


@pytest.mark.ci
@pytest.mark.parametrize("speculation", [None, "auto"])
@pytest.mark.parametrize("budget", [0, 4, 17, 40])
def test_reasoning_that_uses_up_its_budget_is_ended(budget: int, speculation: Any) -> None:
    """Not within a character, and the constraint holds after it all the same."""
    endless = "<think>\n" + "ÿ😀 and " * 200
    model = TemplateSpeaker(QWEN, endless)
    with served(model, speculation=speculation) as server:
        answer = server.chat(
            response_format=FORMAT, thinking_token_budget=budget, max_tokens=200, **ON
        ).json()
        message = answer["choices"][0]["message"]
        jsonschema.validate(json.loads(message["content"]), CITY)
        thought = message.get("reasoning_content", "")
        assert endless[8:].startswith(thought)
        # The text that ends the reasoning, and at most the rest of a character, come on top.
        end = len(model.tokenizer("</think>\n\n", add_special_tokens=False)["input_ids"])
        tokens = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert tokens <= max(budget, len(model.tokenizer("<think>\n")["input_ids"])) + end + 3


def test_tools_are_called_after_reasoning() -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    with served(TemplateSpeaker(QWEN, THOUGHT + call)) as server:
        choice = server.chat(tools=TOOLS, tool_choice="required", **ON).json()["choices"][0]
        assert choice["message"]["reasoning_content"] == "Rome? No: {Oslo}."
        (called,) = choice["message"]["tool_calls"]
        assert json.loads(called["function"]["arguments"]) == {"city": "Oslo"}
        assert choice["finish_reason"] == "tool_calls"


@pytest.mark.ci
def test_harmony_thinks_in_its_own_channel() -> None:
    told = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Oslo."
    with served(TemplateSpeaker(GPT, told)) as server:
        message = server.chat(reasoning_effort="low").json()["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("Hm.", "Oslo.")
    with served(TemplateSpeaker(GPT, "<|channel|>final<|message|>Oslo.")) as server:
        message = server.chat(reasoning_effort="none").json()["choices"][0]["message"]
        assert message["content"] == "Oslo."
        assert "reasoning_content" not in message


def test_a_token_limit_within_the_reasoning_closes_reasoning_and_content() -> None:
    with served(TemplateSpeaker(QWEN, "<think>\n" + "and " * 200)) as server:
        choice = server.chat(response_format=FORMAT, max_tokens=60, **ON).json()["choices"][0]
        jsonschema.validate(json.loads(choice["message"]["content"]), CITY)
        assert choice["finish_reason"] == "length"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "body", "param"),
    [
        (QWEN, {"reasoning_effort": "low"}, "reasoning_effort"),
        (QWEN, {"verbosity": "low"}, "verbosity"),
        (QWEN, {"thinking_token_budget": 5}, "thinking_token_budget"),
        (QWEN, {"enable_thinking": False, **ON}, "enable_thinking"),
        (QWEN, {"chat_template_kwargs": {"enable_thinking": "yes"}}, "chat_template_kwargs.enable_thinking"),
        (QWEN, {"chat_template_kwargs": {"tone": "kind"}}, "chat_template_kwargs.tone"),
        (QWEN, {"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
        ("Qwen3-Coder", ON, "chat_template_kwargs.enable_thinking"),
    ],
)
def test_what_would_be_lost_in_silence_is_refused(name: str, body: dict[str, Any], param: str) -> None:
    with served(TemplateSpeaker(name)) as server:
        answer = server.chat(**body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_earlier_reasoning_reaches_the_template() -> None:
    history = [{"role": "assistant", "content": "Oslo.", "reasoning_content": "Hm."}]
    assert normalize_messages(history)[0]["reasoning_content"] == "Hm."
    assert normalize_messages(history)[0]["thinking"] == "Hm."
