"""Errors in requests have a status, field and place; the server continues."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.serving import MODEL, GatedModel, Served, scripted, served

HI = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    limits = {"max_body": 60_000, "max_schema": 20_000, "max_batch": 8, "max_tokens": 50}
    with served(scripted("hello"), **limits) as running:
        yield running
        assert running.chat().status_code == 200, "after all of this it still answers"


def schema(of: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": of}}}


def nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        made = {"items": made}
    return made


BAD: list[tuple[dict[str, Any], int, str, str | None]] = [
    ({"model": "gpt-4"}, 404, "model_not_found", "model"),
    ({"model": None}, 400, "invalid_value", "model"),
    ({"messages": []}, 400, "invalid_value", "messages"),
    ({"messages": "hi"}, 400, "invalid_value", "messages"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, 400, "invalid_value", "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "invalid_prompt", "messages"),
    ({"messages": [{"role": "user"}]}, 400, "invalid_prompt", "messages"),
    ({"temperature": -1}, 400, "invalid_value", "temperature"),
    ({"temperature": "hot"}, 400, "invalid_value", "temperature"),
    ({"temperature": 1, "top_p": 0}, 400, "invalid_value", "top_p"),
    ({"n": 0}, 400, "invalid_value", "n"),
    ({"n": 9}, 400, "invalid_value", "n"),
    ({"seed": 1.5}, 400, "invalid_value", "seed"),
    ({"stop": [""]}, 400, "invalid_value", "stop"),
    ({"top_logprobs": 2}, 400, "invalid_value", "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, 400, "invalid_value", "top_logprobs"),
    ({"logit_bias": {"5": 101}}, 400, "invalid_value", "logit_bias.5"),
    ({"logit_bias": {"257": 1}}, 400, "invalid_value", "logit_bias"),
    ({"logit_bias": {"five": 1}}, 400, "invalid_value", "logit_bias"),
    ({"frequency_penalty": 2.5}, 400, "invalid_value", "frequency_penalty"),
    ({"repetition_penalty": 0}, 400, "invalid_value", "repetition_penalty"),
    ({"repetition_penalty": 1e-308}, 400, "invalid_value", "repetition_penalty"),
    ({"repeat_penalty": 0.001}, 400, "invalid_value", "repeat_penalty"),
    ({"temperature": 1e-308}, 400, "invalid_value", None),
    ({"modalities": ["audio"]}, 400, "unsupported_value", "modalities"),
    ({"stream_options": {"include_usage": True}}, 400, "invalid_value", "stream_options"),
    # What could be a constraint is never dropped.
    ({"guided_jsn": {}}, 400, "unknown_parameter", "guided_jsn"),
    ({"structured_outputs": {"jsn": {}}}, 400, "unknown_parameter", "structured_outputs.jsn"),
    ({"structured_outputs": {}}, 400, "invalid_value", "structured_outputs"),
    ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, 400, "invalid_value", "structured_outputs"),
    ({"structured_outputs": {"regex": "a"}, **schema({})}, 400, "invalid_value", "structured_outputs"),
    ({"structured_outputs": {"regex": "(a"}}, 400, "invalid_constraint", "structured_outputs.regex"),
    ({"structured_outputs": {"choice": []}}, 400, "unsatisfiable_constraint", "structured_outputs.choice"),
    (
        {"structured_outputs": {"grammar": 'root ::= "a'}},
        400,
        "invalid_constraint",
        "structured_outputs.grammar",
    ),
    *(
        ({"structured_outputs": {kind: of}}, 400, "invalid_constraint", f"structured_outputs.{kind}")
        for kind, of in (
            ("grammar", "start: <|nope|>"),
            ("grammar", "start: <[7]>"),
            ("grammar", "start: <[999999999]>"),
            ("structural_tag", {"format": {"type": "token", "token": "<tool_call>"}}),
        )
    ),
    ({"structured_outputs": {"json": "{"}}, 400, "invalid_constraint", "structured_outputs.json"),
    ({"structured_outputs": {"json": False}}, 400, "unsatisfiable_constraint", "structured_outputs.json"),
    (
        {"structured_outputs": {"structural_tag": "{"}},
        400,
        "invalid_value",
        "structured_outputs.structural_tag",
    ),
    (
        {"structured_outputs": {"structural_tag": "[" * 15_000}},
        400,
        "invalid_value",
        "structured_outputs.structural_tag",
    ),
    (
        {"structured_outputs": {"structural_tag": {}}},
        400,
        "invalid_constraint",
        "structured_outputs.structural_tag",
    ),
    ({"response_format": {"type": "xml"}}, 400, "unsupported_value", "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, 400, "invalid_value", "response_format.json_schema"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        400,
        "invalid_value",
        "response_format.json_schema.schema",
    ),
    (schema({"type": "strin"}), 400, "invalid_constraint", "response_format.json_schema.schema"),
    (schema({"type": "array", "minItems": 2, "maxItems": 1}), 400, "unsatisfiable_constraint", None),
    (schema({"pattern": r"(a)\1"}), 400, "unsupported_constraint", "response_format.json_schema.schema"),
    (schema({"$ref": "http://example.org/x"}), 400, "unsupported_constraint", None),
    (schema({"type": "string", "minLength": 500}), 400, "max_tokens_too_small", "max_tokens"),
    ({**schema({"type": "string"}), "max_tokens": 1}, 400, "max_tokens_too_small", "max_tokens"),
    ({**schema({"type": "string"}), "stop": [""]}, 400, "invalid_value", "stop"),
    ({**schema({"type": "string"}), "stop": ["x"] * 65}, 400, "invalid_value", "stop"),
    ({"stop": "x" * 1025}, 400, "invalid_value", "stop"),
    (schema({"enum": ["x" * 21_000]}), 400, "schema_too_large", "response_format"),
    (schema(nested(400)), 400, "invalid_json", None),
    # Schemas that are small and would be large.
    (
        schema({"type": "integer", "multipleOf": 10**60 + 7}),
        400,
        "unsupported_constraint",
        "response_format.json_schema.schema",
    ),
    (schema({"type": "object", "minProperties": 10**9}), 400, "constraint_too_large", None),
    (
        schema({"patternProperties": {chr(97 + i): {"minimum": i} for i in range(12)}, "type": "object"}),
        400,
        "constraint_too_large",
        "response_format.json_schema.schema",
    ),
    ({"tools": []}, 200, "", None),
    ({"tools": [], "tool_choice": "required"}, 400, "invalid_value", "tool_choice"),
    (
        {"tools": [], "tool_choice": {"type": "function", "function": {"name": "f"}}},
        400,
        "invalid_value",
        None,
    ),
    ({"tools": [{"type": "function"}]}, 400, "invalid_constraint", "tools"),
    ({"tools": [TOOL, TOOL]}, 400, "invalid_constraint", "tools"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, 400, "invalid_constraint", "tools"),
    ({"tools": [TOOL], "tool_choice": "g"}, 400, "invalid_value", "tools"),
    ({"tool_choice": "required"}, 400, "invalid_value", "tool_choice"),
]


@pytest.mark.parametrize(("change", "status", "code", "param"), BAD)
def test_mistakes(server: Served, change: dict[str, Any], status: int, code: str, param: str | None) -> None:
    body = {"model": MODEL, "messages": HI, "temperature": 0, **change}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == status, answer.text
    if status == 200:
        return
    error = answer.json()["error"]
    assert error["code"] == code, error
    assert error["message"]
    assert error["type"] in ("invalid_request_error", "not_found_error")
    if param is not None:
        assert error["param"] == param


@pytest.mark.parametrize("name", ["", "a b", "a\n", "naïve", "x" * 65, '"}', "<tool_call>", None, 5, ["f"]])
def test_names_that_no_tool_can_have(server: Served, name: Any) -> None:
    tools = [TOOL, {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}]
    answer = server.chat(tools=tools)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_constraint", "tools")
    assert [problem["place"] for problem in error["problems"]] == ["#/tools/1/function/name"]


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"model": "told"}', b'{"a":' * 5000, b"null", b'{"messages": 1e999}'],
)
def test_bodies_that_are_no_requests(server: Served, raw: bytes) -> None:
    for path in ("/v1/chat/completions", "/v1/completions"):
        answer = server.http.post(path, content=raw)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]


def test_a_body_that_is_too_large(server: Served) -> None:
    long = [{"role": "user", "content": "x" * 70_000}]
    answer = server.post("/v1/chat/completions", {"model": MODEL, "messages": long})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")

    def endless() -> Iterator[bytes]:
        yield b'{"model": "'
        for _ in range(100):
            yield b"x" * 1000

    answer = server.http.post("/v1/completions", content=endless())
    assert answer.status_code == 413


def test_completions_refuse_what_they_do_not_do(server: Served) -> None:
    for change, param in (
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [999]}, "prompt"),
    ):
        answer = server.post("/v1/completions", {"model": MODEL, "prompt": "x", **change})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metadata", '{"a": NaN}'),
        ("metadata", '{"a": [1e999]}'),
        ("tool_choice", '{"a": -Infinity}'),
        ("tools", '[{"type": "function", "name": "f", "parameters": {"default": NaN}}]'),
        ("text", '{"format": {"type": "text", "x": 1e999}}'),
    ],
)
def test_a_response_repeats_nothing_that_is_no_json(server: Served, name: str, value: str) -> None:
    for more in ("", ', "stream": true'):
        body = f'{{"model": "{MODEL}", "input": "x", "{name}": {value}{more}}}'
        answer = server.http.post("/v1/responses", content=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_value", name)


def test_a_response_repeats_nothing_large() -> None:
    with served(scripted("hello")) as server:
        asked = {"model": MODEL, "input": "x"}
        for name in ("metadata", "tool_choice"):
            answer = server.post("/v1/responses", {**asked, name: {"a": "x" * 300_000}})
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
        answer = server.post("/v1/responses", {**asked, "metadata": {"a": "x" * 200_000}})
        assert answer.json()["metadata"] == {"a": "x" * 200_000}


def test_the_limit_of_the_server_holds(server: Served) -> None:
    answer = server.chat(structured_outputs={"regex": "[a-z]{100}|[a-z]*"}, max_tokens=5000).json()
    assert answer["usage"]["completion_tokens"] <= 50


def test_other_endpoints(server: Served) -> None:
    answer = server.http.get("/v1/chat/completions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = server.http.get("/v1/embeddings")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
    assert "/v1" not in answer.json()["error"]["message"].replace("/v1/embeddings", "")
    assert server.http.get("/v1/models/other").status_code == 404
    answer = server.http.post("/chat/completions", json={})
    assert answer.status_code == 404
    assert "end the client's base_url with /v1" in answer.json()["error"]["message"]


def test_monitors_may_ask_without_a_body(server: Served) -> None:
    for path in ("/health", "/metrics", "/v1/models", f"/v1/models/{MODEL}"):
        answer = server.http.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path


@pytest.mark.parametrize(
    "change",
    [
        {"f" * 40_000: 1},
        {"response_format": {"type": "t" * 40_000}},
        {"structured_outputs": {"f" * 40_000: 1}},
    ],
)
def test_an_error_does_not_repeat_a_long_name(server: Served, change: dict[str, Any]) -> None:
    answer = server.chat(**change)
    assert answer.status_code == 400
    assert len(answer.content) < 1000


def test_the_least_and_the_greatest_numbers_are_answered(server: Served) -> None:
    ends = {"temperature": (1e-30, 100), "repetition_penalty": (0.01, 100), "frequency_penalty": (-2, 2)}
    others = itertools.cycle(
        ({}, {"top_p": 1e-308, "logit_bias": {"104": 100}}, {"min_p": 1, "logit_bias": {"104": -100}})
    )
    for values in itertools.product(*ends.values()):
        asked = {**dict(zip(ends, values, strict=True)), **next(others)}
        assert server.chat(max_tokens=3, seed=0, **asked).status_code == 200, asked


def test_the_context_of_the_model_ends() -> None:
    from constrained.testing import ScriptedModel
    from tests.server.serving import BYTES

    with served(ScriptedModel(BYTES, "hello", context=40)) as server:
        assert server.chat("x" * 20).status_code == 200
        answer = server.chat("x" * 40, response_format={"type": "json_object"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_the_key() -> None:
    with served(scripted("hello"), api_key="sésame") as server:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "sésame".encode()}):
            body = {"model": MODEL, "messages": HI}
            answer = server.post("/v1/chat/completions", body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            assert server.http.get("/v1/models", headers=headers).status_code == 401
        right = {"authorization": "Bearer sésame".encode()}
        assert server.post("/v1/chat/completions", body, headers=right).status_code == 200
        assert server.http.get("/health").json()["status"] == "ok"


def test_a_model_that_fails_fails_its_requests_and_no_others() -> None:
    class Broken(GatedModel):
        def logits(self, prompt: list[int], completion: list[int]) -> Any:
            logits = super().logits(prompt, completion)
            return logits * float("nan") if b"nan" in self.vocabulary.decode(prompt) else logits

        def forward(self, tokens: Any, cache: Any) -> Any:
            if any(b"crash" in self.vocabulary.decode(row) for row in tokens):
                raise MemoryError("no more")
            return super().forward(tokens, cache)

    model = Broken("hello")
    model.gate.set()
    with served(model) as server:
        answer = server.chat("nan")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_error")
        answer = server.chat("crash")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "out_of_memory")
        assert "no more" not in answer.text
        streamed = server.chat("nan", stream=True)
        events = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: ")]
        assert json.loads(events[-2])["error"]["code"] == "model_error"
        assert events[-1] == "[DONE]"
        assert server.chat("hi").json()["choices"][0]["message"]["content"] == "hello"
