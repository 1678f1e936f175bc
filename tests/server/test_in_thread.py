"""A server in a thread of the program that uses it, and the frameworks of docs/frameworks.md in one process with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

import httpx
import pytest
from openai import AuthenticationError, OpenAI
from pydantic import BaseModel

from constrained import python_type
from constrained.server import LocalServer, ServerSettings, serve_in_thread
from tests.server.serving import MODEL, scripted

pytestmark = pytest.mark.filterwarnings("default")


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


ADA = '{"name": "Ada", "age": 36}'
CALL = '<tool_call>\n{"name": "roll", "arguments": {"sides": 6}}\n</tool_call>'


def reply(prompt: str) -> str:
    """A call of the tool in the prompt, a word about its result, or the JSON."""
    if "<tool_response>" in prompt or "Calling tools:\n[" in prompt:  # the latter is how smolagents tells it
        if '"name": "final_answer"' in prompt:
            return '<tool_call>\n{"name": "final_answer", "arguments": {"answer": "a 4"}}\n</tool_call>'
        return "You rolled a 4."
    for name in ("Person", "final_result"):
        if f'"name": "{name}"' in prompt:
            return f'<tool_call>\n{{"name": "{name}", "arguments": {ADA}}}\n</tool_call>'
    return CALL if '"name": "roll"' in prompt else ADA


class Route(BaseModel):
    """Its own schema is that of the type, as docs/frameworks.md has it."""

    net: IPv4Network

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        schema: dict[str, Any] = python_type(cls).enforced_schema
        return schema


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with serve_in_thread(scripted(reply), ServerSettings(name=MODEL, sandbox=False)) as running:
        yield running


def test_a_type_over_http_is_enforced_as_it_is_here() -> None:
    """Pydantic's schema of a network allows any string."""
    model = scripted(lambda prompt: '{"net": "10.0.0.1/8"}')
    with serve_in_thread(model) as here, OpenAI(base_url=here.base_url, api_key=here.api_key) as client:
        asked: Any = {"model": here.model, "messages": [{"role": "user", "content": "Which?"}]}
        found = client.chat.completions.parse(**asked, response_format=Route, temperature=0)
        assert isinstance(found.choices[0].message.parsed, Route)


@pytest.mark.ci
def test_a_client_of_the_same_program() -> None:
    before = threading.active_count()
    with serve_in_thread(scripted(reply)) as here:
        client = OpenAI(base_url=here.base_url, api_key=here.api_key, max_retries=0)
        with client:
            answer = client.chat.completions.parse(
                model=here.model,
                messages=[{"role": "user", "content": "Who?"}],
                response_format=Person,
                temperature=0,
            )
            assert answer.choices[0].message.parsed == Person(name="Ada", age=36)
        with (
            OpenAI(base_url=here.base_url, api_key="another", max_retries=0) as stranger,
            pytest.raises(AuthenticationError),
        ):
            stranger.models.list()
        with serve_in_thread(scripted(reply), ServerSettings(api_key="mine")) as other:
            assert (other.api_key, other.base_url == here.base_url) == ("mine", False)
    with pytest.raises(httpx.ConnectError):
        httpx.get(here.base_url)
    assert threading.active_count() <= before


def test_an_error_in_the_block_ends_the_server() -> None:
    with pytest.raises(ZeroDivisionError), serve_in_thread(scripted(reply)) as here:
        raise ZeroDivisionError
    with pytest.raises(httpx.ConnectError):
        httpx.get(here.base_url)


def test_smolagents(server: LocalServer) -> None:
    pytest.importorskip("smolagents", reason="smolagents is not installed: it is in no extra")
    from smolagents import OpenAIModel, ToolCallingAgent, tool

    model = OpenAIModel(
        model_id=server.model, api_base=server.base_url, api_key=server.api_key, temperature=0
    )
    schema = {"name": "person", "schema": Person.model_json_schema()}
    asked: Any = [{"role": "user", "content": "Who?"}]
    answer = model.generate(asked, response_format={"type": "json_schema", "json_schema": schema})
    assert answer.content == ADA

    @tool
    def roll(sides: int) -> int:
        """Rolls a die.

        Args:
            sides: how many.
        """
        return 4

    assert (
        ToolCallingAgent(tools=[roll], model=model, verbosity_level=0, max_steps=3).run("Roll a die.")
        == "a 4"
    )


def test_haystack(server: LocalServer) -> None:
    pytest.importorskip("haystack", reason="haystack is not installed: it is in no extra")
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret

    def roll(sides: int) -> int:
        """Rolls a die."""
        return 4

    where = {
        "model": server.model,
        "api_base_url": server.base_url,
        "api_key": Secret.from_token(server.api_key),
    }
    greedy = {"temperature": 0}
    structured = OpenAIChatGenerator(**where, generation_kwargs={"response_format": Person, **greedy})
    assert structured.run([ChatMessage.from_user("Who?")])["replies"][0].text == ADA
    calling = OpenAIChatGenerator(**where, tools=[create_tool_from_function(roll)], generation_kwargs=greedy)
    (call,) = calling.run([ChatMessage.from_user("Roll a die.")])["replies"][0].tool_calls
    assert (call.tool_name, call.arguments) == ("roll", {"sides": 6})


@pytest.mark.parametrize("by_format", [False, True])
def test_llama_index(server: LocalServer, by_format: bool) -> None:
    pytest.importorskip(
        "llama_index.llms.openai_like", reason="llama_index is not installed: it is in no extra"
    )
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    def roll(sides: int) -> int:
        """Rolls a die."""
        return 4

    llm = OpenAILike(
        model=server.model, api_base=server.base_url, api_key=server.api_key, is_chat_model=True, temperature=0,
        is_function_calling_model=True, should_use_structured_outputs=by_format, max_tokens=200,
    )  # fmt: skip
    assert llm.as_structured_llm(Person).chat([ChatMessage("Who?")]).raw == Person(name="Ada", age=36)
    answer = llm.chat_with_tools([FunctionTool.from_defaults(roll)], user_msg="Roll a die.")
    (call,) = llm.get_tool_calls_from_response(answer)
    assert (call.tool_name, call.tool_kwargs) == ("roll", {"sides": 6})
