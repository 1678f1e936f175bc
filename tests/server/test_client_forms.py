"""Requests as clients send them: forms of other servers, nulls for what is left open, and schemas of older drafts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.serving import MODEL, Served, scripted, served

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(scripted("hello")) as running:
        yield running


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_schema", "schema": SCHEMA},  # llama.cpp
        {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
        {"type": "json_schema", "json_schema": {"name": None, "schema": SCHEMA, "strict": None}},
        {"type": "json_object", "schema": SCHEMA},
    ],
)
def test_a_schema_is_enforced_wherever_a_format_has_it(server: Served, form: dict[str, Any]) -> None:
    for path, asked in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/completions", {"prompt": "x"}),
    ):
        answer = server.post(path, {"model": MODEL, "temperature": 0, "response_format": form, **asked})
        assert answer.status_code == 200, answer.text
        (choice,) = answer.json()["choices"]
        assert (choice.get("text") or choice["message"]["content"]).startswith('{"a": ')


@pytest.mark.parametrize("arguments", [None, {"a": 1}, '{"a": 1}', "", "null"])
def test_earlier_calls_have_arguments_in_any_form(server: Served, arguments: Any) -> None:
    call = {"id": "c", "type": None, "function": {"name": "f", "arguments": arguments}}
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "c", "name": None},
    ]
    assert server.chat(messages=history, tools=[TOOL]).status_code == 200
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "c", "output": "1"}
    answer = server.post(
        "/v1/responses", {"model": MODEL, "input": [{"role": "user", "content": "x"}, item, result]}
    )
    assert answer.status_code == 200, answer.text


def nulls(value: Any) -> Iterator[Any]:
    """A request with null in place of each of its values, one at a time."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            for changed in (None, *nulls(inner)):
                copy = value.copy()
                copy[key] = changed
                yield copy


@pytest.mark.ci
def test_nulls_anywhere_are_answered_or_refused_by_name(server: Served) -> None:
    request = {
        "model": MODEL,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}], "name": "n"},
            {
                "role": "assistant",
                "content": "y",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "content": "1", "tool_call_id": "c"},
        ],
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        "stop": ["x"],
        "logit_bias": {"5": 1},
        "stream": False,
        **dict.fromkeys(("temperature", "top_p", "n", "seed", "max_tokens", "frequency_penalty"), 1),
    }
    codes = set()
    for changed in nulls(request):
        answer = server.post("/v1/chat/completions", changed)
        assert answer.status_code in (200, 400), (changed, answer.text)
        if answer.status_code == 400:
            assert answer.json()["error"]["message"]
        codes.add(answer.status_code)
    assert codes == {200, 400}


def test_options_of_a_stream_may_be_null(server: Served) -> None:
    answer = server.chat(stream=True, stream_options={"include_usage": None})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("member", "draft"),
    [
        ({"items": [{"type": "integer"}]}, "https://json-schema.org/draft/2019-09/schema"),
        ({"minimum": 0, "exclusiveMinimum": True}, "http://json-schema.org/draft-04/schema#"),
    ],
)
def test_a_tool_in_an_older_draft_is_told_how_to_name_it(
    server: Served, member: dict[str, Any], draft: str
) -> None:
    parameters = {"type": "object", "properties": {"a": member}}
    tools = [TOOL, {"type": "function", "function": {"name": "old", "parameters": parameters}}]
    answer = server.chat(tools=tools)
    assert answer.status_code == 400
    assert f'"$schema": "{draft}"' in answer.json()["error"]["message"]
    parameters["$schema"] = draft
    assert server.chat(tools=tools).status_code == 200


def test_all_tools_that_cannot_be_used_are_named(server: Served) -> None:
    def tool(name: str, member: dict[str, Any]) -> dict[str, Any]:
        parameters = {"type": "object", "properties": {"a": member}}
        return {"type": "function", "function": {"name": name, "parameters": parameters}}

    wrong = [tool("x", {"pattern": r"(a)\1"}), TOOL, tool("y", {"type": "strin"}), tool("a b", {})]
    error = server.chat(tools=wrong).json()["error"]
    assert error["code"] == "unsupported_constraint"
    assert "'x'" in error["message"]
    assert "'y'" in error["message"]
    assert [one["place"] for one in error["problems"]] == [
        "#/tools/0/function/parameters/properties/a/pattern",
        "#/tools/2/function/parameters/properties/a/type",
        "#/tools/3/function/name",
    ]
