"""A reply makes no call twice, and its arguments do not repeat themselves without end."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
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
JSON_FORMATS = [
    name
    for name, format in FORMATS.items()
    if format.parameters is None and not format.single and not format.special
]


class MixtureModel(ScriptedModel):
    """A law over replies: the probability of each, by its cities."""

    def __init__(self, format: Any, replies: dict[tuple[str, ...], float]) -> None:
        super().__init__(byte_vocabulary(), "")
        self.law = {calls(format, *cities).encode(): weight for cities, weight in replies.items()}

    def logits(self, prompt: list[int], completion: list[int]) -> Any:
        text = self.vocabulary.decode(completion)
        mass = np.full(self.vocabulary.size, 1e-30)
        for reply, weight in self.law.items():
            if reply == text:
                mass[list(self.vocabulary.eos_ids)] += weight
            elif reply.startswith(text):
                mass[self.vocabulary.ids_by_bytes[reply[len(text) : len(text) + 1]]] += weight
        return np.log(mass)


def calls(format: Any, *cities: str) -> str:
    return str(format.format_calls(*(("weather", json.dumps({"city": city})) for city in cities)))


def generator(model: Any, format: Any, **options: Any) -> Generator:
    constraint = reply_constraint([WEATHER], tool_choice="required", format=format)
    options = {"on_repeat": "close", **options}
    return Generator(model, constraint, sampler=Local(weights=False), chat=False, **options)


def cities(out: Any) -> tuple[str, ...]:
    return tuple(call.arguments["city"] for call in out.value.calls)


@pytest.mark.parametrize("name", JSON_FORMATS)
@pytest.mark.parametrize("speculation", [None, "auto"])
def test_where_a_copy_is_likeliest_the_next_call_is_the_likeliest_other_one(
    name: str, speculation: Any
) -> None:
    format = FORMATS[name]
    law = {
        ("Rome", "Rome"): 0.6,
        ("Rome", "Oslo", "Oslo"): 0.14,
        ("Rome", "Oslo"): 0.06,
        ("Rome", "Bonn"): 0.12,
        ("Rome",): 0.08,
    }
    out = generator(MixtureModel(format, law), format, speculation=speculation)("Hi", max_tokens=900)
    assert cities(out) == ("Rome", "Oslo")
    assert out.text == calls(format, "Rome", "Oslo")
    assert out.repairs == ()


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_where_an_end_is_likelier_than_another_call_the_reply_ends(name: str) -> None:
    format = FORMATS[name]
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.1, ("Rome",): 0.3}
    out = generator(MixtureModel(format, law), format)("Hi", max_tokens=900)
    assert out.text == calls(format, "Rome")


def test_drawn_replies_follow_the_law_of_replies_without_copies() -> None:
    format = FORMATS["hermes"]
    law = {("Rome", "Rome"): 0.5, ("Rome", "Oslo"): 0.2, ("Rome", "Riga"): 0.1, ("Rome",): 0.2}
    generate = generator(MixtureModel(format, law), format)
    drawn = Counter(cities(generate("Hi", max_tokens=900, temperature=1.0, seed=seed)) for seed in range(300))
    expected = {("Rome", "Oslo"): 0.4, ("Rome", "Riga"): 0.2, ("Rome",): 0.4}
    assert drawn.keys() == expected.keys()
    chi2 = sum((drawn[key] - 300 * share) ** 2 / (300 * share) for key, share in expected.items())
    assert chi2 < 13.8  # 0.1 % of such samples are above


def test_in_a_batch_each_reply_departs_by_itself() -> None:
    format = FORMATS["hermes"]
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.4}
    outputs = generator(MixtureModel(format, law), format).batch(["Hi", "Hello", "Good day"], max_tokens=900)
    assert [cities(out) for out in outputs] == [("Rome", "Oslo")] * 3


class OneByOne(MixtureModel):
    no_trees = "it reads one continuation at a time"


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_a_model_that_cannot_be_asked_ends_behind_the_copy(name: str) -> None:
    format = FORMATS[name]
    law = {("Rome", "Oslo", "Rome", "Rome"): 0.6, ("Rome", "Oslo", "Bonn"): 0.4}
    out = generator(OneByOne(format, law), format)("Hi", max_tokens=900)
    assert out.value.calls == (
        ToolCall("weather", '{"city": "Rome"}'),
        ToolCall("weather", '{"city": "Oslo"}'),
    )
    assert out.text.count("Rome") == 2
    assert out.cut is None
    assert [repair.piece for repair in out.repairs] == ['weather({"city": "Rome"})']


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_calls_that_differ_are_all_made(name: str) -> None:
    format = FORMATS[name]
    model = ScriptedModel(byte_vocabulary(), calls(format, "Rome", "Oslo", "Rom"))
    out = generator(model, format)("Hi", max_tokens=900)
    assert cities(out) == ("Rome", "Oslo", "Rom")
    assert out.repairs == ()


def test_without_the_guard_they_are_written_and_counted_once() -> None:
    format = FORMATS[JSON_FORMATS[0]]
    model = ScriptedModel(byte_vocabulary(), calls(format, *["Rome"] * 4))
    out = generator(model, format, on_repeat=None)("Hi", max_tokens=900)
    assert out.text.count("Rome") == 4
    assert len(out.value.calls) == 1


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_a_string_of_arguments_that_repeats_itself_is_closed(name: str) -> None:
    format = FORMATS[name]
    model = ScriptedModel(byte_vocabulary(), calls(format, "so far " * 60, "Oslo"))
    out = generator(model, format)("Hi", max_tokens=900)
    first = out.value.calls[0].arguments["city"]
    assert 4 * len("so far ") <= len(first) <= 12 * len("so far ")
    assert [repair.pointer for repair in out.repairs] == ["/city"]
    assert out.cut is None


def test_a_stream_has_no_piece_of_a_copy() -> None:
    format = FORMATS["hermes"]
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.4}
    generate = generator(MixtureModel(format, law), format)
    text = "".join(chunk.delta for chunk in generate.stream("Hi", max_tokens=900))
    assert text == calls(format, "Rome", "Oslo")
