"""Libraries that are built on the OpenAI client, over the loopback."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from tests.server.serving import MODEL, Served, scripted, served


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int
    role: Literal["author", "editor"] = "author"


ADA = '{"name": "Ada", "age": 36, "role": "author"}'


def choose_reply(prompt: str) -> str:
    """A model's reply: a call of the tool in the prompt, or the requested JSON."""
    for tool in ("Person", "PartialPerson", "final_result"):
        if f'"name": "{tool}"' in prompt:
            return f'<tool_call>\n{{"name": "{tool}", "arguments": {ADA}}}\n</tool_call>'
    if '"name": "roll"' in prompt and "<tool_response>" not in prompt:
        return '<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}\n</tool_call>'
    if "<tool_response>" in prompt:
        return "You rolled " + prompt.rpartition("<tool_response>\n")[2].partition("\n")[0]
    return ADA


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(scripted(choose_reply)) as running:
        yield running


@pytest.mark.ci
@pytest.mark.parametrize("mode", ["TOOLS", "JSON", "JSON_SCHEMA", "RESPONSES_TOOLS"])
def test_instructor(server: Served, mode: str) -> None:
    instructor = pytest.importorskip("instructor")
    asked: Any = {"messages": [{"role": "user", "content": "Who wrote the first program?"}]}
    with server.openai() as openai:
        client = instructor.from_openai(openai, mode=instructor.Mode[mode])
        create = client.chat.completions.create
        if mode == "RESPONSES_TOOLS":
            create, asked = client.responses.create, {"input": "Who wrote the first program?"}
        person = create(
            model=MODEL,
            **asked,
            response_model=Person,
            max_retries=0,
            temperature=0,
        )
    assert person.model_dump() == Person(name="Ada", age=36).model_dump()


@pytest.mark.ci
def test_instructor_sees_a_value_grow(server: Served) -> None:
    instructor = pytest.importorskip("instructor")
    with server.openai() as openai:
        client = instructor.from_openai(openai)
        partial = list(
            client.chat.completions.create_partial(
                model=MODEL,
                messages=[{"role": "user", "content": "Who wrote the first program?"}],
                response_model=Person,
                max_retries=0,
                temperature=0,
            )
        )
    assert any((one.name, one.age) == ("Ada", None) for one in partial)
    assert partial[-1].model_dump() == Person(name="Ada", age=36).model_dump()


@contextlib.asynccontextmanager
async def agent(server: Served, api: str = "OpenAIChatModel", **options: Any) -> AsyncIterator[Any]:
    from pydantic_ai import Agent
    from pydantic_ai.models import openai
    from pydantic_ai.providers.openai import OpenAIProvider

    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        model = getattr(openai, api)(MODEL, provider=OpenAIProvider(openai_client=client))
        yield Agent(model, retries=0, model_settings={"temperature": 0.0}, **options)


APIS = ["OpenAIChatModel", "OpenAIResponsesModel"]
"""pydantic-ai's models over OpenAI's two APIs; the second one is its default."""


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("way", ["NativeOutput", "ToolOutput", "PromptedOutput"])
async def test_pydantic_ai(server: Served, way: str, api: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    async with agent(server, api, output_type=getattr(pydantic_ai, way)(Person)) as made:
        result = await made.run("Who wrote the first program?")
    assert result.output == Person(name="Ada", age=36)
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("api", APIS)
async def test_a_pydantic_ai_agent_uses_a_tool(server: Served, api: str) -> None:
    pytest.importorskip("pydantic_ai")
    rolled = []
    async with agent(server, api) as made:

        @made.tool_plain
        def roll(sides: int) -> int:
            """Rolls a die."""
            rolled.append(sides)
            return 4

        result = await made.run("Roll a die.")
    assert rolled == [6]
    assert result.output == "You rolled 4"


@pytest.mark.parametrize("api", APIS)
async def test_pydantic_ai_streams(server: Served, api: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    async with (
        agent(server, api, output_type=pydantic_ai.NativeOutput(Person)) as made,
        made.run_stream("Who?") as result,
    ):
        values = [value async for value in result.stream_output(debounce_by=None)]
    assert values[-1] == Person(name="Ada", age=36)
