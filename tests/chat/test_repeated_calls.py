"""A reply ends behind a call that it has made before, and has that call once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained import Generator, Local
from constrained.chat.reply import ToolCall, reply_constraint
from constrained.chat.tool_format_probe import FORMATS
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary

WEATHER = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def replied(format: Any, *cities: str, on_repeat: Any = "close", **options: Any) -> Any:
    script = format.format_calls(*(("weather", json.dumps({"city": city})) for city in cities))
    constraint = reply_constraint([WEATHER], tool_choice="required", format=format, **options)
    model = ScriptedModel(byte_vocabulary(), script)
    return Generator(model, constraint, sampler=Local(weights=False), chat=False, on_repeat=on_repeat)(
        "Hi", max_tokens=900
    )


JSON_FORMATS = [
    name
    for name, format in FORMATS.items()
    if format.parameters is None and not format.single and not format.special
]


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_it_ends_behind_the_first_repeat(name: str) -> None:
    out = replied(FORMATS[name], *["Rome", "Oslo", "Rome", "Rome", "Rome", "Bonn"])
    assert out.value.calls == (
        ToolCall("weather", '{"city": "Rome"}'),
        ToolCall("weather", '{"city": "Oslo"}'),
    )
    assert out.text.count("Rome") == 2
    assert out.cut is None
    assert [repair.piece for repair in out.repairs] == ['weather({"city": "Rome"})']


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_calls_that_differ_are_all_made(name: str) -> None:
    out = replied(FORMATS[name], "Rome", "Oslo", "Rom")
    assert [call.arguments["city"] for call in out.value.calls] == ["Rome", "Oslo", "Rom"]
    assert out.repairs == ()


def test_without_the_guard_they_are_written_and_counted_once() -> None:
    out = replied(FORMATS[JSON_FORMATS[0]], *["Rome"] * 4, on_repeat=None)
    assert out.text.count("Rome") == 4
    assert len(out.value.calls) == 1
