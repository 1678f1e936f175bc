"""What a server adds to the JSON of a request: the schema in the prompt, closed objects, one line, and an end of repeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.serving import scripted, served

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
    "required": ["name", "born"],
}


def form(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}


def asked(text: str, schema: Any = PERSON, **settings: Any) -> str:
    """The prompt that the model reads."""
    prompts: list[str] = []
    with served(scripted(lambda prompt: prompts.append(prompt) or "{}"), **settings) as server:  # type: ignore[func-returns-value]
        assert (
            server.chat(
                messages=[{"role": "user", "content": text}], max_tokens=90, **form(schema)
            ).status_code
            == 200
        )
    return prompts[-1]


NOTATION = "Answer with JSON only, of this type:\n{name: string, born: integer}"


def test_the_model_sees_the_schema() -> None:
    assert f"Ada was born in 1815.\n\n{NOTATION}" in asked("Ada was born in 1815.")
    referred = {"$ref": "#/$defs/P", "$defs": {"P": PERSON}}
    assert "name: string, born: integer" in asked("Ada was born in 1815.", referred)


@pytest.mark.parametrize("text", ["Give name and born of Ada.", json.dumps(PERSON)])
def test_messages_that_describe_it_are_left_alone(text: str) -> None:
    assert "JSON only" not in asked(text)


def test_it_can_be_hidden() -> None:
    assert "JSON only" not in asked("Ada", show_schema=False)


def written(script: str, *, more: dict[str, Any] | None = None, **settings: Any) -> str:
    with served(scripted(lambda prompt: script), **settings) as server:
        body = form(PERSON) if more is None else more
        content: str = server.chat(max_tokens=300, **body).json()["choices"][0]["message"]["content"]
    return content


def test_declared_objects_are_closed() -> None:
    text = '{"name": "Ada", "born": 1815, "type": "object"}'
    assert set(json.loads(written(text))) == {"name", "born"}
    assert written(text, closed=False) == text
    asked = {"structured_outputs": {"json": PERSON, "disable_additional_properties": False}}
    assert written(text, more=asked) == text


def test_a_value_that_repeats_is_closed() -> None:
    text = '{"name": "' + "la la " * 60
    assert len(json.loads(written(text))["name"]) < 40
    assert len(json.loads(written(text, on_repeat=None))["name"]) > 200
