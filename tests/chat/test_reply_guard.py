"""A reply makes no call twice, and its arguments do not repeat themselves without end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from constrained import Generator, Local, Vocabulary
from constrained.chat.reply import ToolCall, reply_constraint
from constrained.chat.tool_format_probe import FORMATS
from constrained.testing import ScriptedModel
from tests.support.finite import byte_vocabulary
from tests.support.mixtures import MixtureModel
from tests.support.mixtures import weather_calls as calls

WEATHER = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
JSON_FORMATS = [
    name
    for name, format in FORMATS.items()
    if format.parameters is None and not format.single and not format.special
]


def generator(model: Any, format: Any, asked: str = "", **options: Any) -> Generator:
    constraint = reply_constraint([WEATHER], tool_choice="required", format=format, asked=asked)
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


def test_a_copy_that_the_model_spells_with_other_tokens_is_one() -> None:
    """The tokenizer ends a call with `"}`, and the model with two tokens."""
    format = FORMATS["hermes"]
    vocabulary = Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b'"}', b""], [257])
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.3, ("Rome",): 0.1}
    out = generator(MixtureModel(format, law, vocabulary), format)("Hi", max_tokens=900)
    assert cities(out) == ("Rome", "Oslo")
    assert out.repairs == ()


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_where_an_end_is_likelier_than_another_call_the_reply_ends(name: str) -> None:
    format = FORMATS[name]
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.1, ("Rome",): 0.3}
    out = generator(MixtureModel(format, law), format)("Hi", max_tokens=900)
    assert out.text == calls(format, "Rome")


@pytest.mark.parametrize("name", JSON_FORMATS)
@pytest.mark.parametrize(
    ("asked", "end", "expected"),
    [
        ("Rome and Oslo?", 0.3, ("Rome", "Oslo")),
        ("Rome and Bonn?", 0.3, ("Rome", "Bonn")),
        ("Rome and Bonn and Oslo?", 0.3, ("Rome", "Oslo", "Bonn")),
        ("Rome?", 0.3, ("Rome",)),
        ("Rome and Riga?", 0.3, ("Rome",)),
        ("Rome and Lima?", 0.3, ("Rome",)),  # an end is likelier by far
        ("Rome and Oslo?", 30.0, ("Rome",)),
        ("Oslo and Bonn?", 0.3, ("Rome",)),  # the first call has nothing of it
    ],
)
def test_a_value_of_the_message_that_no_call_has_comes_before_an_end(
    name: str, asked: str, end: float, expected: tuple[str, ...]
) -> None:
    format = FORMATS[name]
    law = {
        ("Rome", "Rome"): 0.6,
        ("Rome", "Oslo"): 0.02,
        ("Rome", "Oslo", "Oslo"): 0.05,
        ("Rome", "Oslo", "Bonn"): 0.01,
        ("Rome", "Bonn"): 0.03,
        ("Rome", "Lima"): 0.001,
        ("Rome",): end,
    }
    out = generator(MixtureModel(format, law), format, f"How is {asked}")("Hi", max_tokens=900)
    assert cities(out) == expected
    assert out.text == calls(format, *expected)


@pytest.mark.slow
def test_drawn_replies_follow_the_law_of_replies_without_copies() -> None:
    format = FORMATS["hermes"]
    law = {("Rome", "Rome"): 0.5, ("Rome", "Oslo"): 0.2, ("Rome", "Riga"): 0.1, ("Rome",): 0.2}
    generate = generator(MixtureModel(format, law), format)
    drawn = Counter(cities(generate("Hi", max_tokens=900, temperature=1.0, seed=seed)) for seed in range(50))
    expected = {("Rome", "Oslo"): 0.4, ("Rome", "Riga"): 0.2, ("Rome",): 0.4}
    assert drawn.keys() == expected.keys()
    chi2 = sum((drawn[key] - 50 * share) ** 2 / (50 * share) for key, share in expected.items())
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
def test_a_string_of_arguments_that_repeats_itself_is_closed_and_its_call_is_the_last(name: str) -> None:
    """Another call repeated itself, too, up to the token limit."""
    format = FORMATS[name]
    model = ScriptedModel(byte_vocabulary(), calls(format, "so far " * 60, "Oslo"))
    out = generator(model, format)("Hi", max_tokens=900)
    (call,) = out.value.calls
    first = call.arguments["city"]
    assert 4 * len("so far ") <= len(first) <= 12 * len("so far ")
    assert [repair.pointer for repair in out.repairs] == ["/city"]
    assert out.cut is None


def test_a_stream_has_no_piece_of_a_copy() -> None:
    format = FORMATS["hermes"]
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.4}
    generate = generator(MixtureModel(format, law), format)
    text = "".join(chunk.delta for chunk in generate.stream("Hi", max_tokens=900))
    assert text == calls(format, "Rome", "Oslo")


def test_where_the_model_ends_by_itself_a_value_of_the_message_comes_first_too() -> None:
    format = FORMATS["hermes"]
    law = {("Rome",): 0.8, ("Rome", "Oslo"): 0.2}
    for asked, expected in (("How are Rome and Oslo?", ("Rome", "Oslo")), ("How is Rome?", ("Rome",))):
        assert cities(generator(MixtureModel(format, law), format, asked)("Hi", max_tokens=900)) == expected
