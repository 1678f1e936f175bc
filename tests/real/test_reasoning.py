"""The real model reasons behind the server: prose up to ``</think>``, then JSON by the schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import constrained
from constrained.models.hugging_face import HuggingFaceModel
from tests.server.serving import served
from tests.support.thinking_model import BEGIN, END, write_real_thinking_model

pytestmark = pytest.mark.real

NAME = {"type": "string", "pattern": "^[A-Z][A-Za-z ]{1,30}$"}
CAPITAL = {
    "type": "object",
    "properties": {"country": NAME, "capital": NAME},
    "required": ["country", "capital"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def thinking(model: HuggingFaceModel, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """With a model of the real weights; `model` has set threads and the cache."""
    del model
    return constrained.load(str(write_real_thinking_model(tmp_path_factory.mktemp("thinking"))))


@pytest.mark.parametrize(
    ("extra", "reasons"),
    [
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"enable_thinking": True, "thinking_token_budget": 4}, True),
        ({}, False),
    ],
    ids=["on", "budget", "off"],
)
def test_prose_comes_first_and_then_json_by_the_schema(
    thinking: Any, extra: dict[str, Any], reasons: bool
) -> None:
    asked: dict[str, Any] = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": CAPITAL}},
        "max_tokens": 120,
        "temperature": 0,
        "extra_body": extra,
    }
    with served(thinking, name="smollm2") as server, server.openai() as client:
        choice = client.chat.completions.create(**asked).choices[0]
        chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True)]
    content, reasoning = choice.message.content or "", getattr(choice.message, "reasoning_content", None)
    value = json.loads(content)
    jsonschema.validate(value, CAPITAL)
    assert value["capital"] == "Paris"
    assert choice.finish_reason == chunks[-1].finish_reason == "stop"
    assert (reasoning is not None) is reasons
    assert BEGIN not in (reasoning or "") + content
    assert END not in (reasoning or "") + content
    if reasons:
        assert reasoning
        assert "The capital of France is Paris.".startswith(reasoning)
    assert "".join(chunk.delta.content or "" for chunk in chunks) == content
    thought = "".join(getattr(chunk.delta, "reasoning_content", None) or "" for chunk in chunks)
    assert thought == (reasoning or "")
