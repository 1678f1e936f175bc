"""Structured output: a chat model with a parser, and the constraint of a response format."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, get_origin

from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.openai_tools import JsonOutputKeyToolsParser, PydanticToolsParser
from langchain_core.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableLambda,
    RunnableMap,
    RunnablePassthrough,
)
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass

from constrained.constraint import json_schema, python_type
from constrained.constraint.json import MAX_DIGITS, ONE_LINE
from constrained.errors import InvalidArgument, Truncated

if TYPE_CHECKING:
    from constrained.integrations.langchain.chat_model import ChatConstrained

_KEYWORDS = frozenset(
    [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "items",
        "prefixItems",
        "enum",
        "const",
        "$ref",
        "$defs",
        "definitions",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "input_schema",
    ]
)
"""Keywords of which a schema has at least one."""

_PLAIN = (str, int, float, bool)
StructuredOutputMethod = Literal["json_schema", "function_calling", "json_mode"]


def structured_output(
    chat_model: ChatConstrained,
    schema: Any,
    *,
    include_raw: bool,
    method: StructuredOutputMethod,
    strict: bool | None,
    closed: bool,
    **kwargs: Any,
) -> Runnable[Any, Any]:
    """See `ChatConstrained.with_structured_output`."""
    if method not in ("json_schema", "function_calling", "json_mode"):
        raise InvalidArgument(
            f"method={method!r} is not known",
            action="use 'json_schema', 'function_calling' or 'json_mode'",
        )
    if schema is None and method != "json_mode":
        raise InvalidArgument("no schema was given", action="pass a pydantic model, a TypedDict or a dict")
    if isinstance(schema, Mapping):
        schema, strict = _unwrapped(schema, strict)
    reader = _TypeReader.of(schema)
    kind = schema if isinstance(schema, type) and is_basemodel_subclass(schema) else None
    tracing = {
        "kwargs": {"method": method, "strict": strict},
        "schema": schema if reader is None else reader.schema,
    }
    parser: Runnable[Any, Any]
    if method == "function_calling":
        tool = schema if reader is None else reader.tool
        name = convert_to_openai_tool(tool)["function"]["name"]
        chat = chat_model.bind_tools(
            [tool],
            tool_choice=name,
            strict=strict,
            parallel_tool_calls=False,
            ls_structured_output_format=tracing,
            **kwargs,
        )
        parser = (
            PydanticToolsParser(tools=[kind], first_tool_only=True)
            if kind is not None
            else JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        )
    else:
        wanted = schema if reader is None else reader.schema
        response_format = (
            {"type": "json_object"}
            if schema is None
            else response_format_of(wanted, strict=strict) | {"shown": method == "json_schema"}
        )
        content_constraint(response_format, closed=closed)  # raises now if the schema cannot be enforced
        chat = chat_model.bind(response_format=response_format, ls_structured_output_format=tracing, **kwargs)
        parser = JsonOutputParser() if kind is None else PydanticOutputParser(pydantic_object=kind)
    if reader is not None:
        parser = parser | reader.value if method == "function_calling" else RunnableLambda(reader.read)
    parser = RunnableGenerator(_whole, _awhole) | parser
    if not include_raw:
        return chat | parser
    parsed: Runnable[Any, Any] = RunnablePassthrough.assign(
        parsed=lambda reply: parser.invoke(reply["raw"]), parsing_error=lambda _: None
    )
    failed: Runnable[Any, Any] = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=chat) | parsed.with_fallbacks([failed], exception_key="parsing_error")


class _TypeReader:
    """Reads values of a type that LangChain has no parser for: a dataclass, a union, a list, an enum.

    Attributes:
        schema: its JSON Schema.
        tool: the tool with such arguments, as OpenAI clients write it.
    """

    def __init__(self, hint: Any) -> None:
        self._constraint = python_type(hint)
        name = re.sub(r"\W+", "_", getattr(hint, "__name__", "") or "answer")[:64]
        self.schema: dict[str, Any] = {"title": name, **self._constraint.schema}
        self._inside = self.schema.get("type") != "object"
        parameters = dict(self._constraint.schema)
        if self._inside:  # arguments are an object
            definitions = {key: parameters.pop(key) for key in ("$defs", "definitions") if key in parameters}
            parameters = {
                "type": "object",
                "properties": {"value": parameters},
                "required": ["value"],
                **definitions,
            }
        description = str(self.schema.get("description", ""))
        self.tool = {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }

    @classmethod
    def of(cls, hint: Any) -> _TypeReader | None:
        """A reader; None for a schema, a function, a pydantic model and a `TypedDict`, which LangChain reads."""
        generic = get_origin(hint) is not None
        plain = isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Enum) or hint in _PLAIN)
        return cls(hint) if generic or plain else None

    def read(self, message: AIMessage) -> Any:
        """The value in a message."""
        return self._constraint.parse(str(message.text))

    def value(self, arguments: Any) -> Any:
        """The value in the arguments of a call."""
        return self._constraint.parse(json.dumps(arguments["value"] if self._inside else arguments))


def _whole(messages: Iterator[AIMessage]) -> Iterator[AIMessage]:
    """Passes messages on.

    Raises:
        Truncated: the token limit cut one of them; it is valid, but not what the model would have written.
    """
    for message in messages:
        _check_whole(message)
        yield message


async def _awhole(messages: AsyncIterator[AIMessage]) -> AsyncIterator[AIMessage]:
    """As `_whole`."""
    async for message in messages:
        _check_whole(message)
        yield message


def _check_whole(message: AIMessage) -> None:
    if message.response_metadata.get("finish_reason") == "length":
        raise Truncated(
            "the token limit cut the structured output",
            action="raise max_tokens, or take the message with include_raw=True",
            text=str(message.content),
        )


def _unwrapped(schema: Mapping[str, Any], strict: bool | None) -> tuple[Mapping[str, Any], bool | None]:
    """The schema in ``{"name", "schema", "strict"}``, which may be a ``json_schema`` of OpenAI's API; others as they are.

    Raises:
        InvalidArgument: a schema says nothing: none of its members is a keyword.
    """
    inner = schema.get("json_schema") if schema.get("type") == "json_schema" else schema
    if isinstance(inner, Mapping) and "name" in inner and isinstance(inner.get("schema"), Mapping):
        named = {"title": str(inner["name"]), **inner["schema"]}
        return named, inner.get("strict") if strict is None else strict
    if schema and not _KEYWORDS & set(schema) and not ("name" in schema and "parameters" in schema):
        raise InvalidArgument(
            f"a schema with {', '.join(map(repr, list(schema)[:5]))} says nothing about its values",
            action="pass a JSON Schema, or {'name': ..., 'schema': ...}",
        )
    return schema, strict


def json_schema_of(schema: Any) -> dict[str, Any]:
    """The JSON Schema of a type; references are kept, so that recursive types work."""
    make = getattr(schema, "model_json_schema", None)
    if isinstance(schema, type) and make is not None:
        return dict(make())
    if isinstance(schema, Mapping) and not (
        "name" in schema and {"parameters", "input_schema"} & set(schema)
    ):
        return dict(schema)  # LangChain would keep the members of an object only
    return dict(convert_to_json_schema(schema))


def response_format_of(wanted: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """The response format of a type or a schema; a response format is returned as it is."""
    if isinstance(wanted, Mapping) and wanted.get("type") in ("text", "json_object", "json_schema"):
        return dict(wanted)
    schema = json_schema_of(wanted)
    named = {"name": str(schema.get("title", "answer")), "schema": schema, "strict": strict}
    return {"type": "json_schema", "json_schema": named}


def content_constraint(
    response_format: Any, *, closed: bool, max_digits: int | None = MAX_DIGITS
) -> tuple[Any, Any]:
    """The constraint of the content, and the schema to show to the model; each may be None.

    Raises:
        InvalidArgument: the response format is malformed.
        ConstraintError: the schema cannot be enforced.
    """
    if response_format is None:
        return None, None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None, None
    if kind == "json_object":
        return json_schema({"type": "object"}), None
    inner = response_format.get("json_schema") if kind == "json_schema" else None
    schema = inner.get("schema") if isinstance(inner, Mapping) else None
    if not isinstance(schema, Mapping | bool):
        raise InvalidArgument(
            f"response_format is {response_format!r}",
            action="pass {'type': 'json_schema', 'json_schema': {'name': ..., 'schema': ...}}",
        )
    closed = closed or (isinstance(inner, Mapping) and inner.get("strict") is True)
    constraint = json_schema(
        schema,
        separators=ONE_LINE,
        additional_properties_default=not closed,
        distinct_names=True,
        max_digits=max_digits,
    )
    _ = constraint.grammar
    return constraint, schema if response_format.get("shown", True) else None
