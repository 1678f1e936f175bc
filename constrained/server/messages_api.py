"""Requests to Anthropic's Messages API as chat requests, and their refusals in its form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from constrained.server.errors import (
    ApiError,
    invalid_field_error,
    unsupported_field_error,
    with_field_names,
)
from constrained.server.requests import ChatRequest, Items, LenientModel, StrictModel
from constrained.server.responses import Json

_PARAMS = {
    "response_format.json_schema": "output_config.format",
    "response_format": "output_config.format",
    "stop": "stop_sequences",
    "enable_thinking": "thinking",
    "thinking_token_budget": "thinking.budget_tokens",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
"""Fields of chat requests by the names of the Messages API."""
_FOREIGN = (
    "max_completion_tokens", "response_format", "n", "logprobs", "stop", "parallel_tool_calls", "stream_options",
)  # fmt: skip
"""Fields of chat requests that this API does not have, or has under other names."""
_WITHOUT_EFFECT = (
    "cache_control", "context_management", "diagnostics", "inference_geo", "speed", "user_profile_id", "workspace_id",
)  # fmt: skip
"""Fields about caches, bills and a history that clients keep: they do not change what a completion may be."""
_EMPTY = ("container", "mcp_servers")
_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class OutputConfig(LenientModel):
    """``output_config``: the format of the text. An effort is left to the model."""

    format: dict[str, Any] | None = None


class CountTokensRequest(StrictModel):
    """The body of ``POST /v1/messages/count_tokens``. Fields that it does not list are those of chat requests."""

    model_config = ConfigDict(extra="allow", strict=True)

    model: str
    messages: Annotated[Items[dict[str, Any]], Field(min_length=1)]
    system: str | Items[dict[str, Any]] | None = None
    tools: Items[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: OutputConfig | None = None
    output_format: dict[str, Any] | None = None


class MessagesRequest(CountTokensRequest):
    """The body of ``POST /v1/messages``."""

    max_tokens: Annotated[int, Field(ge=0)]
    stop_sequences: Items[str] | None = None
    stream: bool | None = None


class MessagesError(ApiError):
    """An error response of this API."""

    @property
    def body(self) -> dict[str, Any]:
        """The body, in the format of Anthropic's API."""
        kind = _ERRORS.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}


def in_messages(error: ApiError) -> ApiError:
    """An error of a chat request in the form of this API."""
    if isinstance(error, MessagesError):
        return error
    return MessagesError(**vars(with_field_names(error, _PARAMS)))


def as_chat(request: CountTokensRequest) -> ChatRequest:
    """The chat request that asks for the same.

    Raises:
        ApiError: it asks for what this server does not do.
        ValidationError: a field of a chat request is wrong.
    """
    extra = {
        name: value for name, value in (request.model_extra or {}).items() if name not in _WITHOUT_EFFECT
    }
    for name in _FOREIGN:
        if name in extra:
            what = f"{name}: is not a field of the Messages API"
            raise MessagesError(400, what, code="unknown_parameter", param=name)
    for name in _EMPTY:
        if extra.pop(name, None):
            raise unsupported_field_error(name, "is not supported: tools run at the client")
    if request.messages[-1].get("role") == "assistant":
        raise unsupported_field_error(
            "messages", "end with one of the assistant: a reply cannot be continued"
        )
    form = (request.output_config and request.output_config.format) or request.output_format
    body: dict[str, Any] = {
        **extra,
        **_thinking(request.thinking or {}),
        "model": request.model,
        "messages": [*_system(request.system), *_messages(request.messages)],
    }
    if isinstance(request, MessagesRequest):
        body |= {"max_tokens": request.max_tokens, "stream": request.stream, "stop": request.stop_sequences}
    if form is not None:
        if form.get("type") != "json_schema":
            raise unsupported_field_error(
                "output_config.format.type", f"{form.get('type')!r:.200} is unknown"
            )
        body["response_format"] = {
            "type": "json_schema", "json_schema": {"name": "answer", "schema": form.get("schema")},
        }  # fmt: skip
    if request.tools:
        body["tools"] = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(request.tools)]
        body |= _choice(request.tool_choice or {"type": "auto"})
    return ChatRequest.model_validate(body)


def _thinking(thinking: Mapping[str, Any]) -> Json:
    """Reasoning is on where it is asked for with a budget; a model that may decide does not think here."""
    kind = thinking.get("type", "disabled")
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        raise unsupported_field_error("thinking.type", f"{kind!r:.200} is unknown")
    if kind != "enabled":
        return {}
    return {"enable_thinking": True, "thinking_token_budget": thinking.get("budget_tokens")}


def _tool(tool: Mapping[str, Any], place: str) -> Json:
    if tool.get("type") not in (None, "custom") or "input_schema" not in tool:
        raise unsupported_field_error(
            f"{place}.type", f"{tool.get('type')!r:.200} is no tool with an input_schema"
        )
    function = {name: tool[name] for name in ("name", "description", "strict") if tool.get(name) is not None}
    return {"type": "function", "function": {**function, "parameters": tool["input_schema"]}}


def _choice(choice: Mapping[str, Any]) -> Json:
    kind = choice.get("type")
    if kind == "tool":
        chosen: Any = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in _CHOICES:
        chosen = _CHOICES[kind]
    else:
        raise invalid_field_error(
            "tool_choice.type", f"{kind!r:.200} is none of 'auto', 'any', 'tool' and 'none'"
        )
    return {"tool_choice": chosen, "parallel_tool_calls": not choice.get("disable_parallel_tool_use")}


def _system(system: str | list[dict[str, Any]] | None) -> list[Json]:
    text = _text(system or "", "system")
    return [{"role": "system", "content": text}] if text else []


def _messages(messages: list[dict[str, Any]]) -> Iterator[Json]:
    for index, message in enumerate(messages):
        place, content, role = f"messages[{index}].content", message.get("content"), message.get("role")
        if role not in ("user", "assistant", "system"):
            raise invalid_field_error(
                f"messages[{index}].role", f"{role!r:.200} is neither 'user' nor 'assistant'"
            )
        if isinstance(content, str) or role == "system":
            yield {"role": role, "content": _text(content, place)}
        elif role == "assistant":
            yield _turn(content, place)
        else:
            yield from _results_and_text(content, place)


def _turn(content: Any, place: str) -> Json:
    """What the assistant said, thought and called."""
    said: dict[str, list[Any]] = {"text": [], "thinking": [], "tool_use": []}
    for block in _blocks(content, place):
        kind = block["type"]
        if kind not in (*said, "redacted_thinking"):
            raise unsupported_field_error(place, f"a block of the type {kind!r:.200} is not supported")
        if kind == "tool_use":
            call = {
                "name": block.get("name"),
                "arguments": json.dumps(block.get("input") or {}, ensure_ascii=False),
            }
            said[kind].append({"id": block.get("id"), "type": "function", "function": call})
        elif kind in said:
            said[kind].append(block.get(kind) or "")
    turn: Json = {"role": "assistant", "content": "".join(said["text"])}
    turn |= {"reasoning_content": "".join(said["thinking"])} if said["thinking"] else {}
    return turn | ({"tool_calls": said["tool_use"]} if said["tool_use"] else {})


def _results_and_text(content: Any, place: str) -> Iterator[Json]:
    """Results of tools as messages of their own, and texts between them."""
    said: list[Json] = []
    for block in _blocks(content, place):
        if block["type"] != "tool_result":
            said.append(_image(block, place) or {"type": "text", "text": _text([block], place)})
            continue
        if said:
            yield _said(said)
            said = []
        failed = "Error: " if block.get("is_error") else ""
        result = failed + _text(block.get("content") or "", place)
        yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": result}
    if said:
        yield _said(said)


def _said(parts: list[Json]) -> Json:
    """A message of the user: a text; parts where there are images."""
    if all(part["type"] == "text" for part in parts):
        return {"role": "user", "content": "\n".join(part["text"] for part in parts)}
    return {"role": "user", "content": parts}


def _image(block: Json, place: str) -> Json | None:
    """An image as a part of OpenAI's; None: the block is another one.

    Raises:
        ApiError: the image is elsewhere.
    """
    if block["type"] != "image":
        return None
    source = block.get("source")
    if (
        not isinstance(source, dict)
        or source.get("type") != "base64"
        or not isinstance(source.get("data"), str)
    ):
        raise unsupported_field_error(place, "an image needs a source of the type 'base64', with data")
    return {"type": "image_url", "image_url": {"url": f"data:image;base64,{source['data']}"}}


def _blocks(content: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(
        isinstance(one, dict) and isinstance(one.get("type"), str) for one in content
    ):
        raise invalid_field_error(place, "is neither a text nor a list of blocks with a type")
    return content


def _text(content: Any, place: str) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for block in _blocks(content, place):
        if block["type"] != "text" or not isinstance(block.get("text"), str):
            raise unsupported_field_error(
                place, f"a block of the type {block['type']!r:.200} is not supported; only text is"
            )
        texts.append(block["text"])
    return "\n".join(texts)
