"""Requests as they come over the wire.

What would change an answer and is not known is refused by name: a field that is ignored could be a constraint.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class StrictModel(BaseModel):
    """Unknown fields are errors; numbers are not made of texts."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LenientModel(BaseModel):
    """Unknown fields carry nothing that limits an answer."""

    model_config = ConfigDict(extra="ignore", strict=True)


class StreamOptions(LenientModel):
    """How a stream is told.

    Attributes:
        include_usage: one more chunk at the end, with the usage.
    """

    include_usage: bool = False


class StructuredOutputs(StrictModel):
    """What a text must look like: one of these."""

    json_: Any = Field(default=None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    structural_tag: Any = None
    json_object: bool | None = None
    whitespace_pattern: None = None
    disable_fallback: bool | None = None
    disable_any_whitespace: bool | None = None
    disable_additional_properties: bool | None = None


class JsonSchemaFormat(StrictModel):
    """The part of a response format that holds the schema."""

    name: str
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(LenientModel):
    """``text``, ``json_object``, ``json_schema`` or ``structural_tag``."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str
    json_schema: JsonSchemaFormat | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")


class ApiRequest(StrictModel):
    """What both kinds of completions have.

    `top_k`, `min_p` and `structured_outputs` are no fields of OpenAI's; its clients send them by `extra_body`.
    """

    model: str
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    structured_outputs: StructuredOutputs | None = None
    # Nothing here does these, and to leave them out would change the answer:
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    # These change nothing about an answer:
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


class FunctionCall(LenientModel):
    """A call that an assistant made: the arguments are JSON text."""

    name: str
    arguments: str = "{}"


class MessageToolCall(LenientModel):
    """A call in the history of a chat."""

    id: str | None = None
    type: str = "function"
    function: FunctionCall


class ChatMessage(LenientModel):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None


class ChatRequest(ApiRequest):
    """The body of ``POST /v1/chat/completions``."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    response_format: ResponseFormat | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    modalities: list[str] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None


class CompletionRequest(ApiRequest):
    """The body of ``POST /v1/completions``."""

    prompt: str | list[str] | list[int] | list[list[int]]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None
    best_of: int | None = None
    suffix: str | None = None
