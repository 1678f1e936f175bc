"""Our own of LangChain: what streams say, what is refused, what a model is shown, and what it cannot get wrong."""

from __future__ import annotations

import json
import sys
from typing import Literal

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field, ValidationError, field_validator

from constrained.chat.tools import HERMES
from constrained.errors import (
    DoesNotFit,
    InvalidArgument,
    InvalidConstraint,
    PromptError,
    Truncated,
    UnsupportedConstraint,
)
from constrained.extras import MissingExtra
from constrained.integrations.langchain import ChatConstrained
from tests.chat.scripted_chat import call, scripted
from tests.support.chat_templates import TemplateSpeaker
from tests.support.mixtures import MixtureModel

# langchain-core warns of its own future.
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Weather(BaseModel):
    """What the weather is like."""

    city: str = Field(max_length=20)
    unit: Literal["C", "F"] = "C"


class Note(BaseModel):
    """A note."""

    text: str


class Node(BaseModel):
    """A tree."""

    name: str = Field(max_length=5)
    children: list[Node] = Field(max_length=2)


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def test_a_wrong_call_becomes_a_right_one():
    wrong = call("wether", '{"town": "Oslo", "unit": "K"}')
    chat = scripted({"": wrong}).bind_tools([Weather])
    (one,) = chat.invoke("How is Oslo?", max_tokens=120).tool_calls
    assert one["name"] == "Weather"
    assert Weather(**one["args"])


def test_a_stream_hands_over_words_names_arguments_and_last_the_costs():
    script = "One moment. " + call("add", '{"a": 1, "b": 2}') + "\n" + call("add", '{"a": 3, "b": 4}')
    chunks = list(scripted({"": script}).bind_tools([add]).stream("1 + 2 and 3 + 4?"))
    assert "".join(str(chunk.content) for chunk in chunks) == "One moment. "
    fragments = [part for chunk in chunks for part in chunk.tool_call_chunks]
    assert [part["name"] for part in fragments if part["name"]] == ["add", "add"]
    assert "".join(part["args"] or "" for part in fragments if part["index"] == 1) == '{"a": 3, "b": 4}'
    assert len({part["id"] for part in fragments if part["id"]}) == 2
    *others, last = chunks
    assert last.chunk_position == "last"
    assert last.usage_metadata["output_tokens"] > 0
    assert not any(chunk.usage_metadata for chunk in others)
    whole = sum(chunks[1:], chunks[0])
    assert [one["args"] for one in whole.tool_calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert whole.response_metadata["finish_reason"] == "tool_calls"


async def test_async_gives_equal_replies():
    chat = scripted({"": "Hello you"}, stop=[" you"])
    reply = await chat.ainvoke("hi")
    assert (reply.content, reply.response_metadata["stop_sequence"]) == ("Hello", " you")
    assert "".join([str(chunk.content) async for chunk in chat.astream("hi")]) == "Hello"


def test_why_an_answer_ended():
    chat = scripted({"": "A long answer that goes on"})
    assert chat.invoke("hi").response_metadata["finish_reason"] == "stop"
    short = chat.invoke("hi", max_tokens=3)
    assert (short.content, short.response_metadata["finish_reason"]) == ("A l", "length")


def test_calls_that_the_token_limit_touched_end_with_length_and_whole_ones_do_not():
    wanted = [{"a": 11111111, "b": 22222222}, {"a": 33333333, "b": 44444444}]
    texts = [call("add", json.dumps(arguments)) for arguments in wanted]
    chat = scripted({"": "\n".join(texts)}).bind_tools([add], tool_choice="any")
    seen = set()
    with pytest.raises(DoesNotFit) as error:
        chat.invoke("hi", max_tokens=1)
    for limit in range(error.value.needed, 150, 5):
        ended = chat.invoke("hi", max_tokens=limit)
        reason = ended.response_metadata["finish_reason"]
        whole = [one["args"] for one in ended.tool_calls]
        assert (reason == "tool_calls") == (whole == wanted[: len(whole)])
        seen.add((reason, len(whole)))
    assert seen >= {("length", 1), ("tool_calls", 1), ("length", 2), ("tool_calls", 2)}


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
async def test_a_structured_output_that_the_token_limit_cut_is_an_error(method):
    endless = '{"text": "' + "".join(map(str, range(400)))  # without a piece that comes again
    chat = scripted({"": call("Note", endless) if method == "function_calling" else endless})
    noted = chat.with_structured_output(Note, method=method)
    with pytest.raises(Truncated, match="token limit cut the structured output"):
        noted.invoke("Write.", max_tokens=90)
    with pytest.raises(Truncated):
        await noted.ainvoke("Write.", max_tokens=90)
    found = chat.with_structured_output(Note, method=method, include_raw=True).invoke("Write.", max_tokens=90)
    assert (found["parsed"], type(found["parsing_error"])) == (None, Truncated)
    assert found["raw"].response_metadata["finish_reason"] == "length"


def test_the_conversation_reaches_the_model_with_calls_and_results():
    seen: list[str] = []

    def script(prompt: str) -> str:
        seen.append(prompt)
        return "3"

    from constrained.testing import ScriptedModel
    from tests.chat.scripted_chat import vocabulary

    chat = ChatConstrained(model=ScriptedModel(vocabulary(), script)).bind_tools([add])
    request = {"name": "add", "args": {"a": 1, "b": 2}, "id": "x"}
    chat.invoke(
        [
            SystemMessage("Be brief."),
            HumanMessage("1 + 2?"),
            AIMessage("", tool_calls=[request]),
            ToolMessage("3", tool_call_id="x"),
        ]
    )
    prompt = seen[-1]
    assert prompt.startswith("Be brief.\n\nYou can call these functions:")
    assert call("add", '{"a": 1, "b": 2}') in prompt
    assert prompt.endswith("<tool_response>\n3\n</tool_response>")


# ---------------------------------------------------------------- structured answers


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
def test_structured_answers_are_instances_whatever_the_model_says(method):
    chat = scripted({"": "I would rather talk about it."}, max_tokens=1000)
    assert isinstance(chat.with_structured_output(Weather, method=method).invoke("Oslo?"), Weather)
    plain = chat.with_structured_output(Weather.model_json_schema(), method=method).invoke("Oslo?")
    assert Weather(**plain)


def test_recursive_types_work():
    chat = scripted({"": '{"name": "a", "children": [{"name": "b", "children": []}]}'}, max_tokens=200)
    found = chat.with_structured_output(Node).invoke("a tree")
    assert found == Node(name="a", children=[Node(name="b", children=[])])


def test_what_the_types_own_validators_refuse_is_handed_over_with_include_raw():
    class Even(BaseModel):
        """An even number."""

        number: int

        @field_validator("number")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("odd")
            return value

    chat = scripted({"": '{"number": 3}'})
    found = chat.with_structured_output(Even, include_raw=True).invoke("a number")
    assert found["raw"].content == '{"number": 3}'
    assert found["parsed"] is None
    assert "odd" in str(found["parsing_error"])
    good = scripted({"": '{"number": 4}'}).with_structured_output(Even, include_raw=True).invoke("a number")
    assert (good["parsed"], good["parsing_error"]) == (Even(number=4), None)


def test_an_answer_that_cannot_fit_is_refused_before_the_model_runs():
    with pytest.raises(DoesNotFit):
        scripted({"": "x"}).with_structured_output(Weather).invoke("Oslo?", max_tokens=2)


def test_the_bundled_model_fills_a_type():
    chat = ChatConstrained(max_tokens=60)
    found = chat.with_structured_output(Weather).invoke("The weather in Oslo, in C.")
    assert isinstance(found, Weather)
    assert chat.bind_tools([add], tool_choice="any").invoke("1 and 2").tool_calls[0]["name"] == "add"


# ---------------------------------------------------------------- bad input


def test_what_cannot_be_bound_is_refused_when_it_is_bound():
    chat = scripted({"": ""})
    function = {"name": "no such name", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(InvalidConstraint, match="no such name"):
        chat.bind_tools([{"type": "function", "function": function}])
    pattern = {"type": "object", "properties": {"x": {"type": "string", "pattern": r"(a)\1"}}}
    with pytest.raises(UnsupportedConstraint, match="the tool 'f'"):
        chat.bind_tools([{"type": "function", "function": {"name": "f", "parameters": pattern}}])
    with pytest.raises(UnsupportedConstraint):
        chat.with_structured_output({"title": "f", "description": "d", **pattern})
    with pytest.raises(InvalidArgument, match="'subtract'"):
        chat.bind_tools([add], tool_choice="subtract")
    with pytest.raises(InvalidArgument, match="tools is empty"):
        chat.bind_tools([], tool_choice="any")
    with pytest.raises(InvalidArgument, match="method"):
        chat.with_structured_output(Weather, method="yaml")  # type: ignore[arg-type]


def test_misspelt_settings_are_refused():
    with pytest.raises(ValidationError, match="temprature"):
        ChatConstrained(temprature=1.0)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="'temprature'"):
        scripted({"": ""}).invoke("hi", temprature=1.0)
    with pytest.raises(InvalidArgument, match="response_format"):
        scripted({"": ""}).invoke("hi", response_format={"type": "json_schema"})


def test_what_models_here_cannot_read_is_refused():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(PromptError, match="message 0 has an image, and the model takes none"):
        scripted({"": ""}).invoke([HumanMessage([{"type": "text", "text": "what is it?"}, picture])])


def test_a_call_that_takes_too_long_ends():
    with pytest.raises(TimeoutError):
        scripted({"": "words " * 50}, timeout=0.0).invoke("hi")


def test_a_missing_library_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "langchain_core"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("constrained.integrations.langchain")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match=r"pip install 'constrained-generation\[langchain\]'"):
        import constrained.integrations.langchain  # noqa: F401


def test_reasoning_is_apart_from_the_content() -> None:
    told = "<think>\nHm.\n</think>\n\nOslo."
    chat = ChatConstrained(
        model=TemplateSpeaker("Qwen-Qwen3-0.6B", told), template={"enable_thinking": True}, max_tokens=100
    )
    whole = chat.invoke("Where?")
    assert (whole.content, whole.additional_kwargs["reasoning_content"]) == ("Oslo.", "Hm.")
    assert [block["type"] for block in whole.content_blocks] == ["reasoning", "text"]
    streamed = sum(chat.stream("Where?"), AIMessageChunk(content=""))
    assert (streamed.content, streamed.additional_kwargs["reasoning_content"]) == ("Oslo.", "Hm.")


def test_reasoning_within_a_budget() -> None:
    told = TemplateSpeaker("Qwen-Qwen3-0.6B", "<think>\n" + "hm " * 100)
    chat = ChatConstrained(model=told, thinking=12, max_tokens=80)
    message = chat.invoke("Where?")
    thought = message.additional_kwargs["reasoning_content"]
    assert 0 < len(thought) < 100
    assert ("hm " * 100).startswith(thought)
    assert message.response_metadata["finish_reason"] == "stop"
    with pytest.raises(InvalidArgument, match="shows no reasoning"):
        scripted({"": ""}, thinking=12).invoke("Where?")


def test_a_city_of_the_message_that_no_call_has_comes_before_the_end_of_the_reply():
    law = {("Rome", "Rome"): 0.6, ("Rome", "Oslo"): 0.02, ("Rome",): 0.3}
    tools = [{"name": "weather", "parameters": CITY}]
    chat = ChatConstrained(model=MixtureModel(HERMES, law), temperature=0, max_tokens=400).bind_tools(
        tools, tool_choice="any"
    )
    asked = [
        HumanMessage("How are Rome and Oslo?"),
        AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Bonn"}, "id": "1"}]),
    ]
    for messages, cities in (
        (asked[:1], ["Rome", "Oslo"]),
        ("How is Rome?", ["Rome"]),
        # The user's message is not the last one.
        ([*asked, ToolMessage("12 degrees in Oslo", tool_call_id="1")], ["Rome"]),
    ):
        assert [one["args"]["city"] for one in chat.invoke(messages).tool_calls] == cities
