"""Arguments of calls that are read from the user's message, and those that the model writes."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel, Field

from constrained.chat.reply import Reply, ReplyConstraint, ToolCall
from constrained.extraction import Extractor, several_calls, tool_calls
from constrained.extraction.tool_calls import single_call
from constrained.integrations.langchain import ChatConstrained
from tests.extraction.test_phrases import Wishing
from tests.extraction.test_quantities import Counting

TEXT = "Ada Lim, who lives in Oslo, is a vet."
WISHES = {"name": {"Ada Lim": 6.0}, "city": {"Oslo": 5.0}}
ADA = {"name": "Ada Lim", "city": "Oslo"}


class AddPerson(BaseModel):
    """Adds a person."""

    name: str
    city: str = Field("nowhere")


def calls(reply: Any) -> list[tuple[str, Any]]:
    return [(one["name"], one["args"]) for one in reply.tool_calls]


def bound(*, sampler: Any = None, choice: Any = "any", **settings: Any) -> Any:
    chat = ChatConstrained(model=Wishing(WISHES), max_tokens=80, sampler=sampler, **settings)
    return chat.bind_tools([AddPerson], tool_choice=choice)


def test_arguments_are_those_that_an_extractor_reads() -> None:
    expected = Extractor(Wishing(WISHES), AddPerson, instructions="Adds a person.")(TEXT)
    assert expected.value == AddPerson(**ADA)
    for reply in (bound().invoke(TEXT), asyncio.run(bound().ainvoke(TEXT)), *bound().batch([TEXT, TEXT])):
        assert calls(reply) == [("AddPerson", ADA)]
        assert reply.response_metadata["finish_reason"] == "tool_calls"
    written = bound(extraction=False).invoke(TEXT)
    assert calls(written) != [("AddPerson", ADA)]
    for count in ("input_tokens", "output_tokens"):
        assert bound().invoke(TEXT).usage_metadata[count] > written.usage_metadata[count]


def test_a_stream_has_them_in_one_piece() -> None:
    chunks = list(bound().stream(TEXT))
    assert calls(sum(chunks[1:], chunks[0])) == [("AddPerson", ADA)]
    assert [one["name"] for chunk in chunks for one in chunk.tool_call_chunks] == ["AddPerson", None]
    written = [chunk.tool_call_chunks for chunk in bound(extraction=False).stream(TEXT)]
    assert len(written) > len(chunks)


@pytest.mark.parametrize(
    ("settings", "messages"),
    [
        ({"sampler": "local"}, [HumanMessage(TEXT)]),
        ({"extraction": False}, [HumanMessage(TEXT)]),
        ({}, [HumanMessage(" ")]),
        ({}, [HumanMessage("Hi."), AIMessage("Hi."), HumanMessage(TEXT)]),
        (
            {},
            [
                HumanMessage(TEXT),
                AIMessage("", tool_calls=[{"name": "AddPerson", "args": {"name": "Bo"}, "id": "1"}]),
                ToolMessage("done", tool_call_id="1"),
            ],
        ),
    ],
)
def test_other_arguments_are_written_by_the_model(
    settings: Any, messages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(tool_calls, "Extractor", unread)
    assert bound(**settings).invoke(messages).tool_calls


class Mail(BaseModel):
    """Sends a message."""

    to: str
    body: str


def test_arguments_are_read_where_those_of_the_model_repeat_themselves_as_much() -> None:
    wishes = {"to": {"Ada Lim": 5.0, "Bo": 5.5}, "body": {"ha, " * 200: 6.0}}
    chat = ChatConstrained(model=Wishing(wishes), max_tokens=900)
    (call,) = chat.bind_tools([Mail], tool_choice="any").invoke(TEXT).tool_calls
    assert call["args"]["to"] == "Ada Lim"
    assert call["args"]["body"].startswith("ha, ha, ")
    written = ChatConstrained(model=Wishing(wishes), max_tokens=900, extraction=False)
    (call,) = written.bind_tools([Mail], tool_choice="any").invoke(TEXT).tool_calls
    assert call["args"]["to"] == "Bo"


class Weigh(BaseModel):
    """Weighs a person."""

    weight: int
    height: int
    unit: str = ""


BODIES = "One weighs 85 kilos and is 175 cm tall, another one weighs 60 kilos and is 160 cm tall."


def weighed(text: str = BODIES, **settings: Any) -> Any:
    wishes = {
        "weight": {one.replace(",", ""): 9.0 - n for n, one in enumerate(re.findall(r"([\d,]+) kilo", text))},
        "height": {one: 9.0 - n for n, one in enumerate(re.findall(r"(\d+) cm", text))},
    }
    chat = ChatConstrained(model=Counting(wishes), **{"max_tokens": 200, **settings.pop("chat", {})})
    reply = chat.bind_tools([Weigh], **{"tool_choice": "any", **settings}).invoke(text)
    return [(one["args"].get("weight"), one["args"].get("height")) for one in reply.tool_calls]


def test_a_message_that_asks_for_several_calls_of_a_tool_has_them() -> None:
    assert weighed() == [(85, 175), (60, 160)]
    assert weighed(chat={"max_tokens": None}) == [(85, 175), (60, 160)]
    assert weighed("She weighs 85 kilos and is 175 cm tall.") == [(85, 175)]
    assert len(weighed(parallel_tool_calls=False)) == 1
    assert len(weighed(tool_choice="Weigh")) == 1
    four = BODIES + " Two more weigh 70 kilos and are 165 cm tall, and 75 kilos and 180 cm."
    assert weighed(four) == [(85, 175), (60, 160), (70, 165), (75, 180)]
    assert len(weighed(four, chat={"max_tokens": 90})) == 1
    assert weighed(chat={"extraction": False}) != [(85, 175), (60, 160)]


def test_places_of_several_calls_are_those_of_the_text_without_groups_of_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stated = set[str]()

    def spied(text: str, members: Any) -> list[Any]:
        places = (place for member in members for _, spans, _ in member.options for place in spans)
        stated.update(text[slice(*place)] for place in places)
        return []

    monkeypatch.setattr(several_calls, "stated_quantities", spied)
    weighed(BODIES.replace("85 kilos", "1,000,085 kilos"))
    assert {one for one in stated if one.isdigit()} == {"1000085", "175", "60", "160"}


class Book(BaseModel):
    """Books a room. The address is that of a hotel."""

    city: str


class book_flight(BaseModel):  # noqa: N801
    city: str


class Stop(BaseModel):
    """Stops the music."""


class Deciding:
    """Decides for one of its options, whatever the text is."""

    asked: list[tuple[list[str], str]] = []  # noqa: RUF012
    wanted = 0

    def __init__(self, model: Any, constraint: Any, *, instructions: str) -> None:
        self.options = constraint.schema["enum"]

    def ids(self, text: str) -> list[int]:
        return []

    def steps(self, text: str, ids: list[int]) -> Any:
        yield []
        self.asked.append((self.options, text))
        return SimpleNamespace(probabilities={one: one == self.options[self.wanted] for one in self.options})


@pytest.fixture
def deciding(monkeypatch: pytest.MonkeyPatch) -> type[Deciding]:
    monkeypatch.setattr(tool_calls, "Decider", Deciding)
    monkeypatch.setattr(Deciding, "asked", [])
    monkeypatch.setattr(Deciding, "wanted", 0)
    return Deciding


def test_the_tool_is_decided_by_what_is_said_about_each(deciding: type[Deciding]) -> None:
    chat = ChatConstrained(model=Wishing(WISHES), max_tokens=80)
    several = chat.bind_tools([AddPerson, Book, book_flight, Stop], tool_choice="any")
    expected = [
        ("AddPerson", ADA),
        ("Book", {"city": "Oslo"}),
        ("book_flight", {"city": "Oslo"}),
        ("Stop", {}),
    ]
    for number, one in enumerate(expected):
        deciding.wanted = number
        assert calls(several.invoke(TEXT)) == [one]
    assert deciding.asked[0] == (["Adds a person", "Books a room", "book flight", "Stops the music"], TEXT)
    assert len(deciding.asked) == len(expected)
    assert calls(bound().invoke(TEXT)) == [("AddPerson", ADA)]
    alike: Any = {"name": "add", "description": "Adds a person.", "parameters": AddPerson.model_json_schema()}
    assert calls(chat.bind_tools([AddPerson, alike], tool_choice="any").invoke(TEXT))[0][1] == ADA
    many = [{**alike, "name": f"f{n}", "description": f"Adds a person: {n} {'x' * 99}"} for n in range(20)]
    assert calls(chat.bind_tools(many, tool_choice="any").invoke(TEXT))[0][1] == ADA
    assert len(deciding.asked) == len(expected)


def test_whether_a_reply_calls_a_tool_is_decided_where_it_may_answer(deciding: type[Deciding]) -> None:
    chat = ChatConstrained(model=Wishing(WISHES), max_tokens=80).bind_tools([AddPerson, Book])
    deciding.wanted = 1
    chunks = list(chat.stream(TEXT))
    for reply in (chat.invoke(TEXT), sum(chunks[1:], chunks[0])):
        assert calls(reply) == [("Book", {"city": "Oslo"})]
    assert deciding.asked == [(["Adds a person", "Books a room", "None of these"], TEXT)] * 2
    assert not chat.invoke(TEXT, max_tokens=8).tool_calls
    assert not any(chunk.tool_call_chunks for chunk in chat.stream(TEXT, max_tokens=8))
    deciding.wanted = 2
    written = ChatConstrained(model=Wishing(WISHES), max_tokens=80, extraction=False).bind_tools([AddPerson])
    answer = ChatConstrained(model=Wishing(WISHES), max_tokens=80).bind_tools([AddPerson])
    deciding.wanted = 1
    assert answer.invoke(TEXT).content == written.invoke(TEXT).content
    assert len(list(answer.stream(TEXT))) == len(list(written.stream(TEXT)))


def test_models_that_pass_the_trial_write_their_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_calls, "passes_trial", lambda model: True)
    assert calls(bound().invoke(TEXT)) == calls(bound(extraction=False).invoke(TEXT))
    assert calls(bound(extraction=True).invoke(TEXT)) == [("AddPerson", ADA)]
    assert calls(bound().invoke(TEXT, extraction=True)) == [("AddPerson", ADA)]


def test_several_calls_stay_where_the_message_states_more_than_one_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Calls whose values are not in the message: Apple's and Google's are AAPL and GOOG."""
    made = Reply("", tuple(ToolCall("AddPerson", f'{{"name": "{name}"}}') for name in ("AAPL", "GOOG")))
    monkeypatch.setattr(ReplyConstraint, "parse", lambda self, text: made)
    short = bound().invoke("Please add Ada Lim of Oslo.")
    assert calls(short) == [("AddPerson", ADA)]
    several = bound().invoke("Please add Ada Lim of Oslo, Bo Ek of Kiel, Cy Dahl and Di.")
    assert [one["args"]["name"] for one in several.tool_calls] == ["AAPL", "GOOG"]


def test_a_call_of_another_tool_that_says_nothing_more_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Reply("", (ToolCall("AddPerson", '{"name": "AAPL"}'), ToolCall("Stop", "{}")))
    monkeypatch.setattr(ReplyConstraint, "parse", lambda self, text: made)
    tools = ChatConstrained(model=Wishing(WISHES), max_tokens=80).bind_tools(
        [AddPerson, Stop], tool_choice="any"
    )
    monkeypatch.setattr(tool_calls, "MOST_CHARACTERS", 0)  # the tool is not decided
    assert calls(tools.invoke(TEXT)) == [("AddPerson", ADA)]


def test_the_system_and_the_tool_say_what_is_asked() -> None:
    class Listener(Wishing):
        heard: list[str] = []  # noqa: RUF012

        def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
            self.heard.append(str(prompt))
            return super().encode(prompt, chat=chat)

    chat = ChatConstrained(model=Listener(WISHES), max_tokens=80).bind_tools([AddPerson], tool_choice="any")
    assert calls(chat.invoke([SystemMessage("Names in full."), HumanMessage(TEXT)])) == [("AddPerson", ADA)]
    assert any(
        "Names in full." in one and "Adds a person." in one and "city" in one for one in Listener.heard
    )


@pytest.mark.parametrize(
    ("arguments", "single"),
    [
        ((), False),
        (('{"city": "Rome"}',), True),
        (('{"city": "Rome", "days": 3}', '{"city": "Rome", "days": 4}'), False),
        (('{"city": "Rome", "days": 3}', '{"days": 3.0, "unit": "cm", "now": true}'), True),
        (('{"city": "Rome"}', '{"city": "rome"}'), True),
        (('{"low": 3, "high": 3}', '{"low": 3, "high": 4}'), False),
        (('{"city": "Rome"}', '{"city": "Bern"}'), False),
        (('{"city": "Rome"}', '{"ci'), False),
    ],
)
def test_another_call_says_something_else_of_the_message(arguments: tuple[str, ...], single: bool) -> None:
    made = [ToolCall("weather", text) for text in arguments]
    text = "Weather in Rome for 3 days, and in Bern for 4?"
    assert single_call(made, text) == (made[0] if single else None)
