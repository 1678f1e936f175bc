"""The real model in a chat: calls of tools, structured output of LangChain, and OpenAI's client."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from langchain_core.tools import tool
from pydantic import BaseModel

from constrained import Generator, json_schema
from constrained.integrations.langchain import ChatConstrained
from constrained.models.hugging_face import HuggingFaceModel
from tests.real.chats import BORN, COUNTRY
from tests.server.serving import served

# langchain-core warns of its own future.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("default::DeprecationWarning")]


class Person(BaseModel):
    """A person."""

    name: str
    born: int


@tool
def get_weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Tells the weather in a city."""
    return f"Rain in {city}, in {unit}"


@tool
def send_message(to: str, text: str) -> str:
    """Sends a message to a person."""
    return f"{to}: {text}"


TOOLS = {"get_weather": get_weather, "send_message": send_message}
ASKED = {
    "How is the weather in Oslo?": "get_weather",
    "Send Maria the message that I am late.": "send_message",
    "Is it raining in Lisbon?": "get_weather",
}


def test_calls_are_valid_and_mostly_of_the_right_tool(model: HuggingFaceModel) -> None:
    """Today it takes the wrong one for the rain in Lisbon."""
    bound = ChatConstrained(model=model).bind_tools(list(TOOLS.values()), tool_choice="any")
    right = []
    for text, wanted in ASKED.items():
        reply: Any = bound.invoke(text, max_tokens=80)
        assert reply.tool_calls
        assert not reply.invalid_tool_calls
        for call in reply.tool_calls:
            assert TOOLS[call["name"]].invoke(call["args"])  # refuses arguments of another type
        right.append(reply.tool_calls[0]["name"] == wanted)
    assert sum(right) >= 2


def test_arguments_are_those_that_the_message_states(model: HuggingFaceModel) -> None:
    @tool
    def book_table(restaurant: str, people: int, day: str | None = None) -> None:
        """Books a table in a restaurant."""

    bound = ChatConstrained(model=model).bind_tools([book_table, get_weather], tool_choice="any")
    reply: Any = bound.invoke("Book a table for six at Zum Löwen on Sunday")
    (call,) = reply.tool_calls
    expected = {"restaurant": "Zum Löwen", "people": 6, "day": "Sunday"}
    assert (call["name"], call["args"]) == ("book_table", expected)


def test_structured_output_of_langchain_is_an_instance(model: HuggingFaceModel) -> None:
    chat = ChatConstrained(model=model).with_structured_output(Person, method="json_schema")
    found = chat.invoke("Grace Hopper was born in 1906 in New York. Who is it, and when was she born?")
    assert isinstance(found, Person)
    assert found.born == 1906
    assert "Grace Hopper" in found.name


@pytest.mark.parametrize("asked", [COUNTRY, BORN], ids=["country", "born"])
def test_a_server_answers_as_the_generator(model: HuggingFaceModel, asked: tuple[Any, Any]) -> None:
    messages, schema = asked
    direct = Generator(model, json_schema(schema))(messages)
    form: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    with served(model, name="smollm2") as server, server.openai() as client:
        assert [one.id for one in client.models.list()] == ["smollm2"]
        reply = client.chat.completions.create(
            model="smollm2", messages=messages, response_format=form, temperature=0, max_tokens=60
        )
    assert reply.choices[0].message.content == direct.text
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == direct.stats.prompt_tokens
    assert json.loads(direct.text).keys() == schema["properties"].keys()
