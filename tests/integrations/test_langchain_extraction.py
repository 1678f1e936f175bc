"""`with_structured_output(T, method="extraction")`: the user's message is a text, and the value is what it says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from pydantic import BaseModel, field_validator

from constrained.errors import InvalidArgument, InvalidConstraint, RejectedValue, Truncated
from constrained.extraction import Extractor
from constrained.integrations.langchain import ChatConstrained
from tests.extraction.test_phrases import Wishing

TEXT = "Ada Lim, who lives in Oslo, is a vet."
WISHES = {"name": {"Ada Lim": 6.0}, "city": {"Oslo": 5.0}}


class Person(BaseModel):
    name: str
    city: str | None = None
    phone: str | None = None


ADA = Person(name="Ada Lim", city="Oslo")


@pytest.fixture
def chat() -> ChatConstrained:
    return ChatConstrained(model=Wishing(WISHES), max_tokens=80)


def test_the_value_is_that_of_an_extractor(chat: ChatConstrained) -> None:
    structured = chat.with_structured_output(Person, method="extraction")
    assert structured.invoke(TEXT) == ADA == Extractor(Wishing(WISHES), Person)(TEXT).value
    assert structured.invoke([HumanMessage(TEXT)]) == ADA
    assert asyncio.run(structured.ainvoke(TEXT)) == ADA
    assert structured.batch([TEXT, TEXT]) == [ADA, ADA]


def test_schemas_give_json_values(chat: ChatConstrained) -> None:
    schema = Person.model_json_schema()
    for wanted in (schema, {"name": "person", "schema": schema}):
        assert chat.with_structured_output(wanted, method="extraction").invoke(TEXT) == {
            "name": "Ada Lim",
            "city": "Oslo",
        }


def test_the_message_of_the_system_is_the_instructions() -> None:
    class Listener(Wishing):
        heard: list[str] = []  # noqa: RUF012

        def encode(self, prompt: Any, *, chat: bool = True) -> list[int]:
            self.heard.append(str(prompt))
            return super().encode(prompt, chat=chat)

    chat = ChatConstrained(model=Listener(WISHES))
    template = ChatPromptTemplate.from_messages([("system", "Read the {what}."), ("human", "{text}")])
    chain = template | chat.with_structured_output(
        Person, method="extraction", instructions="Only vets.", examples=[("Bo.", Person(name="Bo"))]
    )
    assert chain.invoke({"what": "letter", "text": TEXT}) == ADA
    assert any("Read the letter." in one and "Only vets." in one and "Bo." in one for one in Listener.heard)


class Guarded(Person):
    @field_validator("name")
    @classmethod
    def no_ada(cls, name: str) -> str:
        assert "Ada" not in name
        return name


def test_raw_messages_and_errors(chat: ChatConstrained) -> None:
    found = chat.with_structured_output(Person, method="extraction", include_raw=True).invoke(TEXT)
    assert (found["parsed"], found["parsing_error"]) == (ADA, None)
    assert found["raw"].content == '{"name": "Ada Lim", "city": "Oslo"}'
    assert found["raw"].usage_metadata["output_tokens"] > 0
    with pytest.raises(RejectedValue):
        chat.with_structured_output(Guarded, method="extraction").invoke(TEXT)
    failed = chat.with_structured_output(Guarded, method="extraction", include_raw=True).invoke(TEXT)
    assert (failed["parsed"], type(failed["parsing_error"])) == (None, RejectedValue)
    short = chat.with_structured_output(
        Person, method="extraction", max_tokens=30, decisions=False, include_raw=True
    )
    assert isinstance(asyncio.run(short.ainvoke(TEXT))["parsing_error"], Truncated)


def test_what_is_wrong_is_said_when_it_is_bound(chat: ChatConstrained) -> None:
    with pytest.raises(InvalidArgument, match="there is no option 'examplse'"):
        chat.with_structured_output(Person, method="extraction", examplse=[])
    with pytest.raises(InvalidConstraint):
        chat.with_structured_output({"type": "strnig"}, method="extraction")
    with pytest.raises(InvalidArgument, match="'extraction'"):
        chat.with_structured_output(Person, method="extract")  # type: ignore[arg-type]


def test_a_chat_is_no_text(chat: ChatConstrained) -> None:
    structured = chat.with_structured_output(Person, method="extraction")
    for messages in ([HumanMessage("a"), AIMessage("b"), HumanMessage("c")], [SystemMessage("a")]):
        with pytest.raises(InvalidArgument, match="one message of the user"):
            structured.invoke(messages)
