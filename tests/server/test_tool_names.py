"""Names of tools with dots and slashes: the model reads and writes plain ones, the client its own."""

from __future__ import annotations

import json
from typing import Any

from constrained.server.read_request import with_plain_names
from constrained.server.requests import ChatRequest
from tests.server.serving import MODEL, scripted, served

HI = [{"role": "user", "content": "hi"}]


def tool(name: str, **schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", **schema}}}


def call(name: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>'


def test_calls_have_the_names_of_the_client() -> None:
    tools = [tool("files/read.text"), tool("files_read_text"), tool("plain")]
    seen: list[str] = []

    def script(prompt: str) -> str:
        seen.append(prompt)
        return call("files_read_text_2") if "hi" in prompt else call("plain")

    with served(scripted(script)) as server:
        (made,) = server.chat("hi", tools=tools).json()["choices"][0]["message"]["tool_calls"]
        assert made["function"] == {"name": "files/read.text", "arguments": "{}"}
        assert "files/read.text" not in seen[-1]
        streamed = server.chat("hi", tools=tools, stream=True).text
        parts = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
        names = [
            one["function"]["name"]
            for part in parts
            for one in part["choices"][0]["delta"].get("tool_calls", ())
            if "name" in one["function"]
        ]
        assert names == ["files/read.text"]
        (other,) = server.chat("else", tools=tools).json()["choices"][0]["message"]["tool_calls"]
        assert other["function"]["name"] == "plain"
        choice = {"type": "function", "function": {"name": "files/read.text"}}
        history = [
            *HI,
            {"role": "assistant", "content": None, "tool_calls": [{**made, "type": "function"}]},
            {"role": "tool", "tool_call_id": made["id"], "content": "done"},
        ]
        body = {"model": MODEL, "messages": history, "tools": tools, "tool_choice": choice, "temperature": 0}
        answer = server.post("/v1/chat/completions", body).json()
        assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "files/read.text"
        assert "files/read.text" not in seen[-1]


def test_plain_names_do_not_collide() -> None:
    names = ["a.b", "a_b", "a/b", "a_b_2", "x" * 63 + ".", "x" * 63 + "_"]
    schema = {"properties": {"name": {"const": "a.b"}}}
    body = {"model": MODEL, "messages": HI, "tools": [tool(name, **schema) for name in names]}
    request, back = with_plain_names(ChatRequest.model_validate(body))
    assert isinstance(request, ChatRequest)
    changed = [one["function"]["name"] for one in request.tools or ()]
    assert len(set(changed)) == len(names)
    assert all(len(name) <= 64 for name in changed)
    assert [back.get(name, name) for name in changed] == names
    assert all(
        one["function"]["parameters"]["properties"] == schema["properties"] for one in request.tools or ()
    )


def test_other_requests_stay_as_they_are() -> None:
    for tools in (None, [tool("plain")], [tool("not a name.")], [{"type": "function"}]):
        request = ChatRequest.model_validate({"model": MODEL, "messages": HI, "tools": tools})
        assert with_plain_names(request) == (request, {})
