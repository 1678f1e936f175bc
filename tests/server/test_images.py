"""Images in requests: the forms of OpenAI's two APIs and of Anthropic's, and what is refused."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest

import constrained
from constrained.integrations.langchain import ChatConstrained
from tests.server.serving import MODEL, Served, scripted, served
from tests.support.tiny_vision import picture, tiny_vision

SCHEMA = {"type": "object", "properties": {"total": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["total"]}  # fmt: skip
FORMAT = {"type": "json_schema", "json_schema": {"name": "receipt", "schema": SCHEMA}}


def data(seed: int) -> str:
    file = io.BytesIO()
    picture(seed).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def url(seed: int) -> str:
    return f"data:image/png;base64,{data(seed)}"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(constrained.load(*tiny_vision("llava")), max_tokens=40, sandbox=True) as running:
        yield running


def chat(server: Served, parts: Any, **more: Any) -> Any:
    messages = [{"role": "user", "content": parts}]
    body = {"model": MODEL, "messages": messages, "temperature": 0, "response_format": FORMAT, **more}
    return server.post("/v1/chat/completions", body)


def test_three_apis_read_the_same_image(server: Served) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": url(0), "detail": "low"}},
        {"type": "text", "text": "Sum?"},
    ]
    answer = chat(server, parts).json()
    text = answer["choices"][0]["message"]["content"]
    assert set(constrained.json_schema(SCHEMA).parse(text)) == {"total"}
    without = chat(server, [parts[1]]).json()
    assert answer["usage"]["prompt_tokens"] == without["usage"]["prompt_tokens"] + 4
    streamed = server.openai().chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": parts}],
        temperature=0,
        response_format=FORMAT,
        stream=True,
    )  # type: ignore[call-overload]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == text
    items = [{"type": "input_image", "image_url": url(0)}, {"type": "input_text", "text": "Sum?"}]
    body = {
        "model": MODEL, "input": [{"role": "user", "content": items}], "temperature": 0,
        "text": {"format": {"type": "json_schema", "name": "receipt", "schema": SCHEMA}},
    }  # fmt: skip
    assert server.openai().responses.create(**body).output_text == text
    source = {"type": "base64", "media_type": "image/png", "data": data(0)}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": "Sum?"}]
    written = server.post(
        "/v1/messages",
        {
            "model": MODEL, "messages": [{"role": "user", "content": blocks}], "max_tokens": 40, "temperature": 0,
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
    ).json()  # fmt: skip
    assert written["content"][0]["text"] == text


def test_a_large_image_is_read_too(server: Served) -> None:
    file = io.BytesIO()
    picture(0, 900, 700).save(file, "png")
    large = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    assert len(large) > 1 << 20
    assert chat(server, [{"type": "image_url", "image_url": {"url": large}}]).status_code == 200


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            "addresses are not fetched",
        ),
        ({"type": "image_url", "image_url": {"url": "/etc/passwd"}}, "addresses are not fetched"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "cannot be read"),
        ({"type": "image_url"}, "NoneType"),
        ({"type": "input_audio", "input_audio": {}}, "input_audio"),
    ],
)
def test_what_is_no_image_is_refused(server: Served, part: Any, said: str) -> None:
    answer = chat(server, [part, {"type": "text", "text": "Sum?"}])
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_a_model_that_takes_none_refuses_them() -> None:
    with served(scripted(lambda *_: "hello")) as running:
        answer = chat(running, [{"type": "image_url", "image_url": {"url": url(0)}}])
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")
        assert "the model takes none" in answer.json()["error"]["message"]


def test_langchain_sends_images(server: Served) -> None:
    model = ChatConstrained(model=constrained.load(*tiny_vision("llava")), temperature=0, max_tokens=40)
    structured = model.with_structured_output(SCHEMA, method="json_schema")
    parts = [{"type": "image", "base64": data(0), "mime_type": "image/png"}, {"type": "text", "text": "Sum?"}]
    read: Any = structured.invoke([{"role": "user", "content": parts}])
    assert set(read) == {"total"}
