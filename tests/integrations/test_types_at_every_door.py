"""A Python type means the same wherever it comes in: `python_type`, a schema of it, engines, the server, LangChain's outputs and tools."""

import json
from datetime import datetime
from decimal import Decimal
from ipaddress import IPv4Network
from typing import Annotated, Any

import pytest
from langchain_core.tools import InjectedToolArg, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Json, NaiveDatetime, PastDate
from typing_extensions import TypedDict

from constrained import Constraint, json_schema, python_type, regex
from constrained.chat.tools import parse_tools
from constrained.errors import InvalidConstraint
from constrained.integrations.engines.request_constraint import request_constraint
from constrained.integrations.langchain.structured import (
    StructuredOutputMethod,
    content_constraint,
    response_format_of,
)
from constrained.integrations.langchain.typed import tool_definition
from constrained.prompting.schema_text import schema_to_text
from constrained.server.request_constraint import json_constraint
from constrained.server.settings import ServerSettings
from tests.chat.scripted_chat import call, scripted
from tests.grammars.json_schema.test_contents import accepted

CODE = regex("[ab]{2}")


class Route(BaseModel):
    net: IPv4Network
    at: NaiveDatetime
    since: PastDate
    path: Json[list[int]]
    price: Decimal


class Coded(Route):
    code: Annotated[str, CODE]


class Keyed(TypedDict):
    """Has types that LangChain's own reader of these refuses."""

    net: IPv4Network
    at: NaiveDatetime


def plan(
    net: IPv4Network,
    at: NaiveDatetime,
    since: PastDate,
    path: Json[list[int]],
    price: Decimal,
    key: Annotated[str, InjectedToolArg],
) -> str:
    """Plans.

    Args:
        net: where
    """
    return f"{net} {at} {since} {path} {price} {key}"


def arguments(tool: Any) -> Constraint:
    (parsed,) = parse_tools([tool_definition(tool)])
    return parsed.arguments


ENFORCED = python_type(Route).enforced_schema
DOORS = {
    "python_type": lambda: python_type(Route),
    "json_schema": lambda: json_schema(ENFORCED),
    "engines": lambda: request_constraint({"json": json.dumps(ENFORCED)}),
    "server": lambda: json_constraint(ENFORCED, ServerSettings()),
    "structured output": lambda: content_constraint(response_format_of(Route), closed=True)[0],
    "with a constraint": lambda: content_constraint(response_format_of(Coded), closed=True)[0],
    "tool": lambda: arguments(Route),
    "tool with a constraint": lambda: arguments(Coded),
    "function": lambda: arguments(plan),
    "structured tool": lambda: arguments(StructuredTool.from_function(plan)),
    "TypedDict": lambda: arguments(Keyed),
}
RIGHT = {
    "net": "10.0.0.0/8",
    "at": "2024-05-06T07:08:09",
    "since": "1999-01-01",
    "path": "[1, 2]",
    "price": 1.5,
}
WRONG = {
    "net": "10.0.0.1/8",
    "at": "2024-05-06T07:08:09Z",
    "since": "2999-01-01",
    "path": "[1.5]",
    "price": "1.5",
}


@pytest.mark.parametrize("name", DOORS)
def test_a_type_is_enforced_at_every_door(name: str) -> None:
    door: Any = DOORS[name]()
    members = {key: RIGHT[key] for key in Keyed.__annotations__} if name == "TypedDict" else RIGHT
    more = {"code": "ab"} if "constraint" in name else {}
    assert accepted(door, json.dumps(members | more))
    for key in members:
        assert not accepted(door, json.dumps({**members, **more, key: WRONG[key]})), key
    if more:
        assert not accepted(door, json.dumps({**members, "code": "ac"}))


def test_a_prompt_does_not_show_what_only_the_grammar_reads() -> None:
    (tool,) = parse_tools([tool_definition(Coded)])
    _, shown = content_constraint(response_format_of(Coded), closed=True)
    assert "x-content" not in schema_to_text(ENFORCED)
    for schema in (tool.as_openai()["function"]["parameters"], shown, json_schema(ENFORCED).schema):
        assert "x-content" not in json.dumps(schema)
        assert schema["properties"]["at"] == {"type": "string", "format": "date-time"}
    assert shown["properties"]["code"]["pattern"] == "^(?:[ab]{2})$"


def test_the_definition_of_a_tool_is_langchains_but_for_its_types() -> None:
    for tool in (plan, StructuredTool.from_function(plan), Route):
        converters: tuple[Any, ...] = (tool_definition, convert_to_openai_tool)
        ours, theirs = (convert(tool)["function"] for convert in converters)
        assert ours["name"] == theirs["name"]
        assert ours.get("description") == theirs.get("description")
        assert list(ours["parameters"]["properties"]) == list(theirs["parameters"]["properties"])
    described = tool_definition(plan)["function"]["parameters"]["properties"]["net"]
    assert described["description"] == "where"


def test_values_of_a_strict_model_and_of_a_typed_dict() -> None:
    """LangChain's parser gives a strict model a date as text, which it refuses; the value of a `TypedDict` stays JSON."""

    class Strict(BaseModel, strict=True):
        at: datetime

    text = '{"at": "2024-05-06T07:08:09Z"}'
    keyed = '{"net": "10.0.0.0/8", "at": "2024-05-06T07:08:09"}'
    methods: tuple[StructuredOutputMethod, ...] = ("json_schema", "function_calling")
    for method in methods:
        said = text if method == "json_schema" else call("Strict", text)
        chat = scripted({"": said}, describe=False).with_structured_output(Strict, method=method)
        assert isinstance(chat.invoke("hi", max_tokens=120).at, datetime)
        said = keyed if method == "json_schema" else call("Keyed", keyed)
        chat = scripted({"": said}, describe=False).with_structured_output(Keyed, method=method)
        assert chat.invoke("hi", max_tokens=120) == json.loads(keyed)


@pytest.mark.parametrize(
    "kind", [{"date": {"low": 3}}, {"date": {"low": "1" * 99}}, {"uuid": {"version": "4"}}, {"url": {"longest": "x"}}, {"duration": {"a": 1}}]
)  # fmt: skip
def test_parameters_that_no_type_has_are_refused_with_their_place(kind: dict[str, Any]) -> None:
    schema = {"properties": {"a": {"type": "string", "x-content": kind}}}
    with pytest.raises(InvalidConstraint, match="other parameters") as caught:
        _ = json_schema(schema).grammar
    assert caught.value.problems[0].place.startswith("#/properties/a/x-content")
