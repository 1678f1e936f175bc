"""Bodies: counted before they are parsed, and parsed beside the other requests if they are large."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest
from pydantic import ValidationError

from constrained.grammars._core import count_json_values
from constrained.server.requests import CompletionRequest
from constrained.testing import ScriptedModel
from tests.server.serving import BYTES, MODEL, scripted, served

MANY = 1 << 40


def counted_slowly(text: str) -> int:
    """The judge: byte by byte."""
    count = commas = i = 0
    inside = False
    while i < len(text):
        if inside:
            inside = text[i] != '"'
            i += text[i] == "\\"
        else:
            count += text[i] in '"[{'
            commas += text[i] == ","
            inside = text[i] == '"'
        i += 1
    return count + commas // 4


def some_json(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth > 4 or kind < 0.4:
        return "".join(rng.choice('a"\\,[{]}\n') for _ in range(rng.randint(0, 12)))
    if kind < 0.5:
        return rng.randint(0, 9)
    if kind < 0.75:
        return [some_json(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    return {f'{i}"\\': some_json(rng, depth + 1) for i in range(rng.randint(0, 5))}


def test_values_are_counted_exactly() -> None:
    """Strings with quotes, backslashes and brackets in them."""
    rng = random.Random(0)
    for _ in range(300):
        text = json.dumps(some_json(rng))
        assert count_json_values(text.encode(), 4, MANY) == counted_slowly(text), text


@pytest.mark.parametrize("text", ["", '"', '"\\', '"\\"', "[", '"a\\\\"{', ",,,", '{"a'])
def test_a_text_that_ends_too_early_is_counted(text: str) -> None:
    assert count_json_values(text.encode(), 4, MANY) == counted_slowly(text)


def test_counting_ends_where_there_are_too_many() -> None:
    text = json.dumps([[]] * 2_000_000).encode()
    assert 50_000 < count_json_values(text, 4, 50_000) < 50_100


def test_too_many_values_are_refused() -> None:
    message = {"role": "user", "content": "x"}
    with served(scripted("hello"), max_values=5000) as server:
        for body in ({"messages": [message] * 1500}, {"structured_outputs": {"json": [[]] * 30_000}}):
            answer = server.chat(**body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_many_values")
        assert server.chat(messages=[message] * 900).status_code == 200
        answer = server.post("/tokenize", {"messages": [message] * 1500})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_many_values")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("wrong", "param", "what"),
    [
        ({"stop": 5}, "stop", "string"),
        ({"stop": ["a", 5]}, "stop[1]", "string"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "array"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type", "required"),
        ({"tool_choice": 4}, "tool_choice", "object"),
        ({"logit_bias": {"1": 200}}, "logit_bias.1", "100"),
        ({"logit_bias": {"1": True}}, "logit_bias.1", "number"),
        ({"logit_bias": {"1": "x"}}, "logit_bias.1", "number"),
    ],
)
def test_an_error_names_the_field_and_no_branch_of_its_type(wrong: Any, param: str, what: str) -> None:
    with served(scripted("x")) as server:
        error = server.chat(**wrong).json()["error"]
    assert (error["param"], error["code"]) == (param, "invalid_value")
    assert what in error["message"]


def test_a_list_has_one_error() -> None:
    """All errors of a list of 25,000 would be told with the GIL held, a second of them."""
    text = json.dumps({"model": MODEL, "prompt": ["a"] * 25_000 + [1] * 25_000}).encode()
    with pytest.raises(ValidationError) as raised:
        CompletionRequest.model_validate_json(text)
    assert raised.value.error_count() < 10


def test_a_huge_text_is_refused_after_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every way in; the model is given a context of which the text is a thousand times."""
    model = ScriptedModel(BYTES, "hello", context=2000)
    text, read = "some words " * 200_000, [0]
    encode = model.vocabulary.encode

    def counted(part: Any) -> list[int]:
        read[0] += len(part)
        return encode(part)

    monkeypatch.setattr(model.vocabulary, "encode", counted)
    message = {"role": "user", "content": text}
    with served(model) as server:
        for path, body in (
            ("/v1/chat/completions", {"messages": [message]}),
            ("/v1/completions", {"prompt": text}),
            ("/v1/responses", {"input": text}),
            ("/tokenize", {"prompt": text}),
            ("/tokenize", {"prompt": text, "add_special_tokens": False}),
            ("/tokenize", {"messages": [message]}),
        ):
            read[0] = 0
            answer = server.post(path, {"model": MODEL, **body})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "context_length_exceeded"), path
            assert "the model reads 2000 in all" in error["message"]
            assert 2000 < read[0] < 10_000


def test_a_compressed_body_is_refused_by_name() -> None:
    with served(ScriptedModel(BYTES, "x")) as server:
        body = gzip.compress(json.dumps({"model": MODEL, "prompt": "x"}).encode())
        answer = server.http.post("/v1/completions", content=body, headers={"Content-Encoding": "gzip"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
        assert "'gzip'" in answer.json()["error"]["message"]
        plain = json.dumps({"model": MODEL, "prompt": "x"})
        assert server.http.post(
            "/v1/completions", content=plain, headers={"Content-Encoding": "identity"}
        ).is_success
