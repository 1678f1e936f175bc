"""The Responses API: its requests as chat requests, and its answers and streams of events.

The server keeps no conversations: `previous_response_id` is refused, and ``store`` changes nothing.
"""

from __future__ import annotations

import codecs
import json
import time
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from constrained.chat.custom_input import as_arguments
from constrained.chat.reply_parser import ReplyDelta as Part
from constrained.server.errors import ApiError, invalid_field_error, unsupported_field_error, with_field_names
from constrained.server.requests import ChatRequest, Items, LenientModel, StrictModel
from constrained.server.responses import Json, ResponseBuilder, chat_tokens
from constrained.server.sequence_stream import SequenceDelta, TokenLogprob

_PARAMS = {
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity",
}
"""Fields of chat requests by the names of the Responses API."""
_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
_GROWING = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}
"""Of calls, the field that grows, and the name of its events."""
_FOREIGN = ("messages", "max_tokens", "max_completion_tokens", "response_format", "n", "logprobs")
"""Fields of chat requests that this API does not have, or has under other names."""
_LOGPROBS = "message.output_text.logprobs"
_INCLUDED = ("reasoning.encrypted_content", _LOGPROBS)
"""The first is asked for by clients of reasoning models; the reasoning is there as text anyway."""

_MOST_REPEATED = 256 << 10
"""Characters of JSON of what is repeated and no other limit bounds."""


class TextOptions(StrictModel):
    """``text``: the format of the content."""

    format: dict[str, Any] | None = None
    verbosity: str | None = None


class ReasoningOptions(LenientModel):
    """``reasoning``: how much of it, and whether a summary is asked for, which is refused."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponsesRequest(StrictModel):
    """The body of ``POST /v1/responses``. Fields that it does not list are those of chat requests."""

    model_config = ConfigDict(extra="allow", strict=True)

    model: str
    input: str | Items[dict[str, Any]]
    instructions: str | None = None
    text: TextOptions | None = None
    tools: Items[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_output_tokens: Annotated[int, Field(ge=0)] | None = None
    reasoning: ReasoningOptions | None = None
    stream: bool | None = None
    stream_options: Any = None
    include: Items[str] | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    prompt: Any = None
    max_tool_calls: int | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    truncation: Literal["auto", "disabled"] | None = None


def as_chat(request: ResponsesRequest) -> ChatRequest:
    """The chat request that asks for the same.

    Raises:
        ApiError: a field is invalid or not supported.
    """
    for name in (
        "previous_response_id",
        "conversation",
        "background",
        "prompt",
        "max_tool_calls",
    ):
        if getattr(request, name):
            raise unsupported_field_error(name, "is not supported")
    for name in _FOREIGN:
        if (request.model_extra or {}).get(name) is not None:
            raise ApiError(400, f"{name}: is unknown", code="unknown_parameter", param=name)
    if request.truncation == "auto":
        raise unsupported_field_error("truncation", "'auto' is not supported: a prompt is never shortened")
    for one in request.include or ():
        if one not in _INCLUDED:
            raise unsupported_field_error("include", f"{one!r} is not supported")
    _check_repeated(request)
    body: dict[str, Any] = {
        **(request.model_extra or {}),
        "model": request.model,
        "messages": _messages(request),
        "stream": request.stream,
        "max_tokens": request.max_output_tokens,
        "tool_choice": request.tool_choice,
    }
    if request.top_logprobs or _LOGPROBS in (request.include or ()):
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.text is not None:
        body |= {"verbosity": request.text.verbosity, "response_format": _format(request.text.format)}
    if request.reasoning is not None:
        if request.reasoning.summary or request.reasoning.generate_summary:
            raise unsupported_field_error(
                "reasoning.summary", "is not supported: the reasoning is not summarised"
            )
        body["reasoning_effort"] = request.reasoning.effort
    if request.tools:
        body["tools"] = [_tool(tool, index) for index, tool in enumerate(request.tools)]
    return ChatRequest.model_validate(body)


def _check_repeated(request: ResponsesRequest) -> None:
    """Checks what each answer, and the first and last event of a stream, repeat of a request."""
    for name in ("metadata", "tool_choice", "tools", "text"):
        value = getattr(request, name, None)
        try:
            text = json.dumps(value.model_dump() if isinstance(value, BaseModel) else value, allow_nan=False)
        except ValueError:
            raise invalid_field_error(
                name, "has a number that JSON does not have, or a too large one"
            ) from None
        if name in ("metadata", "tool_choice") and len(text) > _MOST_REPEATED:
            raise invalid_field_error(name, f"has more than {_MOST_REPEATED} characters")


def in_responses(error: ApiError) -> ApiError:
    """An error of a chat request with the field's name in the Responses API."""
    return with_field_names(error, _PARAMS)


def _format(form: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if form is None or form.get("type") != "json_schema":
        return None if form is None else dict(form)
    inner = {name: value for name, value in form.items() if name != "type"}
    return {"type": "json_schema", "json_schema": {"name": "answer", **inner}}


def _tool(tool: Mapping[str, Any], index: int) -> dict[str, Any]:
    kind = tool.get("type", "function")
    if kind not in ("function", "custom"):
        raise unsupported_field_error(
            f"tools[{index}].type", f"{kind!r} is not supported; use 'function' or 'custom'"
        )
    if kind in tool:
        return dict(tool)
    return {"type": kind, kind: {name: value for name, value in tool.items() if name != "type"}}


def _messages(request: ResponsesRequest) -> list[dict[str, Any]]:
    """The messages of a chat: instructions and input."""
    messages: list[dict[str, Any]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    thought: str | None = None
    for index, item in enumerate(request.input):
        place = f"input[{index}]"
        kind = item.get("type", "message")
        if kind == "reasoning":
            thought = "".join(_texts(item.get("content") or (), f"{place}.content"))
            continue
        own = {"role": "assistant", "content": "", **({"reasoning_content": thought} if thought else {})}
        if kind == "message":
            message = {"role": item.get("role"), "content": _content(item.get("content"), place)}
            messages.append({**own, **message} if message["role"] == "assistant" else message)
        elif kind in _GROWING:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append(own)
            custom = kind == "custom_tool_call"
            arguments = as_arguments(item.get("input")) if custom else item.get("arguments") or "{}"
            call = {"name": item.get("name"), "arguments": arguments}
            calls = messages[-1].setdefault("tool_calls", [])
            calls.append({"id": item.get("call_id"), "type": "function", "function": call})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            output = _content(item.get("output"), f"{place}.output")
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        else:
            raise unsupported_field_error(f"{place}.type", f"{kind!r} is not supported")
        thought = None
    return messages


def _content(content: Any, place: str) -> str | list[dict[str, Any]]:
    """A text; a list of parts where there are images."""
    if content is None or isinstance(content, str):
        return content or ""
    place = f"{place}.content"
    if not isinstance(content, list | tuple) or not any(map(_is_image, content)):
        return "".join(_texts(content, place))
    return [
        {"type": "image_url", "image_url": {"url": part["image_url"]}}
        if _is_image(part)
        else {"type": "text", "text": "".join(_texts([part], place))}
        for part in content
    ]


def _is_image(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") == "input_image"
        and isinstance(part.get("image_url"), str)
    )


def _texts(parts: Any, place: str) -> list[str]:
    if not isinstance(parts, (list, tuple)):
        raise invalid_field_error(place, "is neither a text nor a list of parts")
    texts = []
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise unsupported_field_error(
                place, f"a part of the type {kind!r} is not supported; text is, and image_url"
            )
        texts.append(text)
    return texts


class ResponsesBuilder(ResponseBuilder):
    """Builds the response or the events of one request to the Responses API.

    Args:
        asked: the request.
        arguments: as `ResponseBuilder` takes them.
    """

    def __init__(self, asked: ResponsesRequest, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.id = f"resp_{uuid.uuid4().hex}"
        self._asked = asked
        self._items: list[Json] = []
        self._number = -1
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._untold = 0  # characters of tokens that deltas have not had: a stop string may begin there
        self._tokens: list[TokenLogprob] = []  # whose text is not in an item yet

    def build_response(self) -> Json:
        """The response, when it is finished."""
        self.closing_chunks()
        return self._response()

    def opening_chunks(self) -> list[Json]:
        """The first events."""
        return [
            self._event(f"response.{name}", response=self._response()) for name in ("created", "in_progress")
        ]

    def chunks(self, piece: SequenceDelta) -> list[Json]:
        """The events for a delta of the sequence."""
        events = []
        for one in self._by_token(piece):
            self._tokens += one.tokens
            for part in self.choices[0].add_delta(one):
                if not (part.reasoning and not self._reasoning):
                    events += self._opened_by(part)
                    if part.text:
                        events.append(self._grown(part))
                self._tokens = []
        return events

    def _by_token(self, piece: SequenceDelta) -> list[SequenceDelta]:
        """A delta token by token where log-probabilities are asked for, so that each has the item of its text."""
        if not piece.tokens:
            return [piece]
        parts, text = list[SequenceDelta](), piece.delta
        for left, token in zip(range(len(piece.tokens) - 1, -1, -1), piece.tokens, strict=True):
            self._untold += len(self._decoder.decode(token.token))
            own = text[: self._untold] if left else text
            text = text[len(own) :]
            self._untold -= len(own)
            parts.append(SequenceDelta(0, own, [token], count=piece.count - left))
        last = parts[-1]
        last.finish, last.captures, last.error = piece.finish, piece.captures, piece.error
        return parts

    def closing_chunks(self) -> list[Json]:
        """The last events."""
        events = [] if self._items else self._opened_by(Part(""))
        events += self._closed()
        response = self._response()
        return [*events, self._event(f"response.{response['status']}", response=response)]

    def error_chunk(self, error: ApiError) -> Json:
        """The event of an error within a stream."""
        shown = in_responses(error)
        return self._event("error", code=shown.code, message=shown.message, param=shown.param)

    # ------------------------------------------------------------ items

    def _opened_by(self, part: Part) -> list[Json]:
        """The events that open the item of a part, and close the one before, if it is another one."""
        kind = "reasoning" if part.reasoning else "message"
        if part.call is not None:
            kind = "custom_tool_call" if part.call in self.choices[0].inputs else "function_call"
        if self._items and self._items[-1]["type"] == kind and part.name is None:
            return []
        events = self._closed()
        item: Json = {"id": f"{_PREFIXES[kind]}_{uuid.uuid4().hex}", "type": kind, "status": "in_progress"}
        if kind == "reasoning":
            item |= {"summary": [], "content": [{"type": "reasoning_text", "text": ""}]}
        elif kind == "message":
            content = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item |= {"role": "assistant", "content": [content]}
        else:
            assert part.call is not None
            known, call = self.choices[0].calls[part.call]
            item |= {"call_id": known, "name": call.name, _GROWING[kind][0]: ""}
        self._items.append(item)
        empty = {**item, "content": []} if kind == "message" else item
        events.append(self._of_item("response.output_item.added", item=_copy(empty)))
        if kind not in _GROWING:
            events.append(self._of_part("response.content_part.added", part=_copy(item["content"][0])))
        return events

    def _grown(self, part: Part) -> Json:
        """The event of new characters."""
        item = self._items[-1]
        if item["type"] in _GROWING:
            field, name = _GROWING[item["type"]]
            item[field] += part.text
            return self._of_text(f"response.{name}.delta", delta=part.text)
        item["content"][0]["text"] += part.text
        if item["type"] == "reasoning":
            return self._of_part("response.reasoning_text.delta", delta=part.text)
        logprobs = chat_tokens(self._tokens)["content"]
        item["content"][0]["logprobs"] += logprobs
        return self._of_part("response.output_text.delta", delta=part.text, logprobs=_copy(logprobs))

    def _closed(self) -> list[Json]:
        """The events that close the last item."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return []
        item = self._items[-1]
        last = self.choices[0].finish
        item["status"] = "incomplete" if last == "length" else "completed"
        if item["type"] in _GROWING:
            field, name = _GROWING[item["type"]]
            named = {"name": item["name"]} if field == "arguments" else {}
            done = self._of_text(f"response.{name}.done", **{field: item[field]}, **named)
            return [done, self._of_item("response.output_item.done", item=_copy(item))]
        if item["type"] == "message":
            item |= self.choices[0].shown_captures
        text = item["content"][0]["text"]
        kind = "reasoning_text" if item["type"] == "reasoning" else "output_text"
        more: Json = {} if kind == "reasoning_text" else {"logprobs": _copy(item["content"][0]["logprobs"])}
        return [
            self._of_part(f"response.{kind}.done", text=text, **more),
            self._of_part("response.content_part.done", part=_copy(item["content"][0])),
            self._of_item("response.output_item.done", item=_copy(item)),
        ]

    # ------------------------------------------------------------ events

    def _event(self, kind: str, **fields: Any) -> Json:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}

    def _of_item(self, kind: str, **fields: Any) -> Json:
        return self._event(kind, output_index=len(self._items) - 1, **fields)

    def _of_text(self, kind: str, **fields: Any) -> Json:
        return self._of_item(kind, item_id=self._items[-1]["id"], **fields)

    def _of_part(self, kind: str, **fields: Any) -> Json:
        return self._of_text(kind, content_index=0, **fields)

    def _response(self) -> Json:
        """The response as far as it is known."""
        asked, finish = self._asked, self.choices[0].finish
        status = "in_progress" if finish is None else "incomplete" if finish == "length" else "completed"
        usage = self.usage
        thought = usage.get("completion_tokens_details", {"reasoning_tokens": 0})
        extra = asked.model_extra or {}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "completed_at": int(time.time()) if finish else None,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": extra.get("metadata") or {},
            "model": self._model,
            "output": _copy(self._items),
            "parallel_tool_calls": extra.get("parallel_tool_calls") is not False,
            "previous_response_id": None,
            "reasoning": {"effort": asked.reasoning and asked.reasoning.effort, "summary": None},
            "store": False,
            "temperature": extra.get("temperature", 1.0),
            "text": {"format": (asked.text and asked.text.format) or {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": asked.tools or [],
            "top_logprobs": asked.top_logprobs or 0,
            "top_p": extra.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": None
            if finish is None
            else {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": thought,
                "total_tokens": usage["total_tokens"],
            },
        }


def _copy(value: Any) -> Any:
    """A deep copy of JSON: items change while events wait to be sent."""
    if isinstance(value, dict):
        return {name: _copy(one) for name, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value
