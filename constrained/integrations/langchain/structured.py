"""Structured output: a chat model with a parser, and the constraint of a response format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
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
from langchain_core.utils.function_calling import convert_to_json_schema

from constrained.constraint import json_schema
from constrained.constraint.json import MAX_DIGITS, ONE_LINE
from constrained.errors import InvalidArgument, Truncated
from constrained.grammars.json_schema.source.dialects import constrains
from constrained.integrations.langchain.typed import TypedSchema, tool_definition

StructuredOutputMethod = Literal["json_schema", "function_calling", "json_mode", "extraction"]


def structured_output(
    chat_model: BaseChatModel,
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
            action="use 'json_schema', 'function_calling', 'json_mode' or 'extraction'",
        )
    if schema is None and method != "json_mode":
        raise InvalidArgument("no schema was given", action="pass a pydantic model, a TypedDict or a dict")
    if isinstance(schema, Mapping):
        schema, strict = unwrapped(schema, strict)
    typed = TypedSchema.of(schema)
    old = schema if typed is None and isinstance(schema, type) else None
    tracing = {"kwargs": {"method": method, "strict": strict}, "schema": schema}
    if typed is not None and not hasattr(
        schema, "model_fields"
    ):  # what LangChain cannot read would break its tracing
        tracing["schema"] = typed.schema
        if typed.keeps_json:
            with suppress(Exception):
                tracing["schema"] = convert_to_json_schema(schema)
    parser: Runnable[Any, Any]
    if method == "function_calling":
        tool = tool_definition(schema) if typed is None else typed.tool
        name = tool["function"]["name"]
        chat = chat_model.bind_tools(
            [tool],
            tool_choice=name,
            strict=strict,
            parallel_tool_calls=False,
            ls_structured_output_format=tracing,
            **{"extraction": False, **kwargs},  # "extraction" is a method of its own
        )
        parser = (
            PydanticToolsParser(tools=[old], first_tool_only=True)
            if old is not None
            else JsonOutputKeyToolsParser(key_name=name, first_tool_only=True)
        )
    else:
        response_format = (
            {"type": "json_object"}
            if schema is None
            else response_format_of(schema, strict=strict) | {"shown": method == "json_schema"}
        )
        content_constraint(response_format, closed=closed)  # raises now if the schema cannot be enforced
        chat = chat_model.bind(response_format=response_format, ls_structured_output_format=tracing, **kwargs)
        parser = JsonOutputParser() if old is None else PydanticOutputParser(pydantic_object=old)
    if typed is not None and not typed.keeps_json:
        parser = parser | typed.value if method == "function_calling" else RunnableLambda(typed.read)
    parser = RunnableGenerator(_whole, _awhole) | parser
    if not include_raw:
        return chat | parser
    parsed: Runnable[Any, Any] = RunnablePassthrough.assign(
        parsed=lambda reply: parser.invoke(reply["raw"]), parsing_error=lambda _: None
    )
    failed: Runnable[Any, Any] = RunnablePassthrough.assign(parsed=lambda _: None)
    return RunnableMap(raw=chat) | parsed.with_fallbacks([failed], exception_key="parsing_error")


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


def unwrapped(schema: Mapping[str, Any], strict: bool | None) -> tuple[Mapping[str, Any], bool | None]:
    """The schema in ``{"name", "schema", "strict"}``, which may be a ``json_schema`` of OpenAI's API; others as they are.

    Raises:
        InvalidArgument: a schema says nothing: none of its members is a keyword.
    """
    inner = schema.get("json_schema") if schema.get("type") == "json_schema" else schema
    if isinstance(inner, Mapping) and "name" in inner and isinstance(inner.get("schema"), Mapping):
        titled = {"title": str(inner["name"]), **inner["schema"]}
        return titled, inner.get("strict") if strict is None else strict
    named = "name" in schema and {"parameters", "input_schema"} & set(schema)
    if schema and not named and not any(map(constrains, schema)):
        raise InvalidArgument(
            f"a schema with {', '.join(map(repr, list(schema)[:5]))} says nothing about its values",
            action="pass a JSON Schema, or {'name': ..., 'schema': ...}",
        )
    return schema, strict


def response_format_of(wanted: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """The response format of a type or a schema; a response format is returned as it is."""
    if isinstance(wanted, Mapping) and wanted.get("type") in ("text", "json_object", "json_schema"):
        return dict(wanted)
    typed = TypedSchema.of(wanted)
    if typed is not None:
        schema, more = typed.schema, {"embed": typed.embed} if typed.embed else {}
    else:
        named = (
            isinstance(wanted, Mapping) and "name" in wanted and {"parameters", "input_schema"} & set(wanted)
        )
        # LangChain would keep the members of an object only
        keeps = isinstance(wanted, Mapping) and not named
        schema, more = dict(wanted) if keeps else dict(convert_to_json_schema(wanted)), {}
    said = {"name": str(schema.get("title", "answer")), "schema": schema, "strict": strict, **more}
    return {"type": "json_schema", "json_schema": said}


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
    inner: Any = response_format.get("json_schema") if kind == "json_schema" else None
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
        embed=inner.get("embed"),
    )
    _ = constraint.grammar
    return constraint, constraint.schema if response_format.get("shown", True) else None
