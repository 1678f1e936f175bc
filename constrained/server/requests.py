"""Request bodies as pydantic models.

An unknown field that could change a completion is refused by name, because it could be a constraint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from constrained.chat.custom_input import as_arguments
from constrained.sampling.warpers import REPETITION_PENALTIES

_Item = TypeVar("_Item")
Items = Annotated[list[_Item], Field(fail_fast=True)]
"""A list whose check ends at its first error: one of all would take a second for a body of half a MiB."""

_Penalty = Annotated[float, Field(ge=REPETITION_PENALTIES[0], le=REPETITION_PENALTIES[1])]


def _null_is(default: Any) -> BeforeValidator:
    """Reads null as the default: clients write out what they leave open."""
    return BeforeValidator(lambda value: default if value is None else value)


class StrictModel(BaseModel):
    """Unknown fields are errors; strings are not converted to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LenientModel(BaseModel):
    """Unknown fields are ignored: they cannot constrain a completion."""

    model_config = ConfigDict(extra="ignore", strict=True)


class StreamOptions(LenientModel):
    """Options of a stream.

    Attributes:
        include_usage: send a last chunk with the token usage.
    """

    include_usage: Annotated[bool, _null_is(False)] = False


class StructuredOutputs(StrictModel):
    """The constraint of a completion: exactly one of the first six fields."""

    json_: Any = Field(default=None, alias="json")
    regex: str | None = None
    choice: Items[str] | None = None
    grammar: str | None = None
    structural_tag: Any = None
    json_object: bool | None = None
    whitespace_pattern: None = None
    disable_fallback: bool | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None


class JsonSchemaFormat(StrictModel):
    """The part of a response format that holds the schema. Its name changes nothing."""

    name: str | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(LenientModel):
    """``text``, ``json_object``, ``json_schema`` or ``structural_tag``; llama.cpp has the schema beside the type."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str
    json_schema: JsonSchemaFormat | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")

    @property
    def wanted(self) -> tuple[str, dict[str, Any] | bool | None]:
        """The field of the schema, and the schema; None: it is missing."""
        if self.json_schema is not None:
            return "response_format.json_schema.schema", self.json_schema.schema_
        return f"response_format.{'json_schema' if self.schema_ is None else 'schema'}", self.schema_


class ApiRequest(StrictModel):
    """Fields of both completion endpoints.

    `top_k`, `min_p`, `repetition_penalty`, `structured_outputs` and the fields for constraints are not part of OpenAI's API; its clients send them
    in `extra_body`. Other fields are looked up in `constrained.server.other_servers`.
    """

    model_config = ConfigDict(extra="allow", strict=True)

    model: str
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    seed: int | None = None
    stop: str | Items[str] | None = None
    stop_token_ids: Items[int] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    # The constraint under the names of older vLLM, SGLang and llama.cpp:
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: Items[str] | None = None
    guided_grammar: str | None = None
    json_schema: Any = None
    regex: str | None = None
    ebnf: str | None = None
    grammar: str | None = None
    structural_tag: Any = None
    logit_bias: dict[str, Any] | None = (
        None  # its numbers are checked in `prepare`: here all of them would have an error
    )
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: _Penalty | None = None
    # Names of llama.cpp; -1 is no limit:
    repeat_penalty: _Penalty | None = None
    repeat_last_n: Annotated[int, Field(ge=-1)] | None = None
    n_predict: Annotated[int, Field(ge=-1)] | None = None
    # These do not change the completion:
    user: str | None = None
    metadata: Any = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class ContentPart(LenientModel):
    """A part of a message."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | dict[str, Any] | None = None


def _as_text(arguments: Any) -> Any:
    """The JSON text of arguments."""
    if arguments is None:
        return "{}"
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments


class FunctionCall(LenientModel):
    """A tool call of the assistant; the arguments are a JSON string, which some clients send as the object itself, or null."""

    name: str
    arguments: Annotated[str, BeforeValidator(_as_text)] = "{}"


class MessageToolCall(LenientModel):
    """A tool call in the history of a chat; that of a custom tool is read as the call of a function."""

    id: str | None = None
    type: Annotated[str, _null_is("function")] = "function"
    function: FunctionCall

    @model_validator(mode="before")
    @classmethod
    def _custom(cls, value: Any) -> Any:
        call = value.get("custom") if isinstance(value, dict) and value.get("type") == "custom" else None
        if not isinstance(call, dict):
            return value
        function = {"name": call.get("name"), "arguments": as_arguments(call.get("input"))}
        return {**value, "type": "function", "function": function}


class ChatMessage(LenientModel):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Items[ContentPart] | None = None
    name: str | None = None
    tool_calls: Items[MessageToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


def as_dicts(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Messages as JSON values, without what they do not have."""
    return [message.model_dump(exclude_none=True) for message in messages]


class ChatRequest(ApiRequest):
    """The body of ``POST /v1/chat/completions``."""

    messages: Annotated[Items[ChatMessage], Field(min_length=1)]
    extraction: bool | None = None  # see `constrained.server.extractions`
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    tools: Items[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    modalities: Items[str] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    enable_thinking: bool | None = None
    thinking_token_budget: Annotated[int, Field(ge=0)] | None = None
    thinking_budget_tokens: Annotated[int, Field(ge=-1)] | None = None  # as llama.cpp calls it
    reasoning_budget_tokens: Annotated[int, Field(ge=-1)] | None = None
    include_reasoning: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CompletionRequest(ApiRequest):
    """The body of ``POST /v1/completions``."""

    prompt: str | Items[str] | Items[int] | Items[Items[int]]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None
    best_of: int | None = None
    suffix: str | None = None
