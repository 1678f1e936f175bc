"""A request out of its body, which is received within limits, parsed, and checked without a model.

A parser keeps the GIL until it is done. Its time depends on the number of values, hardly on their size: 2 s for 8 MiB
of small messages. So values are counted first, without the GIL.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from constrained.chat.plain_names import plain_names, renamed
from constrained.grammars._core import count_json_values
from constrained.server import messages_api, prepare
from constrained.server.errors import ApiError
from constrained.server.messages_api import MessagesRequest
from constrained.server.prepare import EncodedPrompts
from constrained.server.request_constraint import constraint_digest
from constrained.server.requests import ApiRequest, ChatRequest, CompletionRequest
from constrained.server.responses_api import ResponsesRequest, as_chat
from constrained.server.settings import ServerSettings

Body = ChatRequest | CompletionRequest | ResponsesRequest | MessagesRequest
_Model = TypeVar("_Model")

SMALL = 16 << 10
"""Bytes of a body that is parsed in the event loop, within milliseconds. A larger one is parsed in a thread."""

LARGE = 64 << 10
"""Bytes of a body above which its request is prepared in a worker process, if there are any."""

_JSON = re.compile(r"\s*application/([\w.-]+\+)?json\s*(;|$)", re.IGNORECASE)

_NUMBERS = 4
"""Numbers that count as one value."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a body asks for.

    Attributes:
        body: as its endpoint has it.
        request: as it is answered: that of the Responses API or of Anthropic's as a chat request, with plain names of tools.
        tool_names: names of the client's tools by their plain ones.
        digest: of the constraint; None: free text.
        prompts: encoded already, and left out of the requests; None: they are not.
    """

    body: Body
    request: ApiRequest
    tool_names: dict[str, str]
    digest: bytes | None
    prompts: EncodedPrompts | None = None


async def receive_body(request: Request, settings: ServerSettings) -> list[bytes]:
    """The body of a request, in the parts in which it came.

    Raises:
        ApiError: it is no JSON, is compressed, is too large, or takes too long.
        ClientDisconnect: the client disconnected.
    """
    close = {"Connection": "close"}
    kind = request.headers.get("content-type", "")
    browser = (
        "origin" in request.headers
    )  # whose pages can send any other type, or none, without asking first
    if not _JSON.match(kind) and (kind or browser):
        what = f"the body has the content type {kind!r:.100}: send application/json"
        raise ApiError(415, what, code="unsupported_content_type", headers=close)
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        what = f"the body has the encoding {coding!r:.100}: send it without one"
        raise ApiError(415, what, code="unsupported_encoding", headers=close)
    try:
        parts = await asyncio.wait_for(_receive(request, settings.max_body), settings.body_seconds)
    except (TimeoutError, asyncio.TimeoutError):
        what = f"the body did not come within {settings.body_seconds:g} seconds"
        raise ApiError(408, what, code="body_timeout", headers=close) from None
    if parts is None:
        what = f"the body is larger than {settings.max_body} bytes"
        raise ApiError(413, what, code="body_too_large", headers=close)
    return parts


async def _receive(request: Request, limit: int) -> list[bytes] | None:
    """The parts of a body; None if it is longer than the limit, at once if its head announces twice as much.

    Of a longer body as much again is read and dropped: a connection that is closed while its client still writes is
    reset, and the client does not see the refusal.
    """
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > 2 * limit:
        return None
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > 2 * limit:
            return None
        if size <= limit:
            parts.append(part)
        else:
            parts.clear()
    return parts if size <= limit else None


def joined(parts: Sequence[bytes], most: int) -> bytes:
    """The body out of its parts. Its values are counted: a parser is not given more.

    Raises:
        ApiError: there are more than `most`.
    """
    body = b"".join(parts)
    if count_json_values(body, _NUMBERS, most) > most:
        raise ApiError(413, f"the body has more than {most} values", code="too_many_values")
    return body


def read_request(
    kind: type[Body], body: bytes, models: Mapping[str, object], settings: ServerSettings
) -> ReadRequest:
    """Parses and checks a body.

    Args:
        kind: of its endpoint.
        body: JSON.
        models: by the names that requests may give.
        settings: limits.

    Raises:
        ValidationError: it is no such request.
        ApiError: there is no such model; a field is invalid or not supported.
    """
    parsed = kind.model_validate_json(body)
    request: ApiRequest
    if isinstance(parsed, ResponsesRequest):
        request = as_chat(parsed)
    else:
        request = messages_api.as_chat(parsed) if isinstance(parsed, MessagesRequest) else parsed
    named(models, request.model)
    prepare.check_request(request, settings)
    request, names = with_plain_names(request)
    return ReadRequest(parsed, request, names, constraint_digest(request))


def named(models: Mapping[str, _Model], name: str | None) -> _Model:
    """The model of a request; without a name the first one.

    Raises:
        ApiError: 404, there is none of that name.
    """
    if name is None:
        return next(iter(models.values()))
    if name not in models:
        known = ", ".join(map(repr, models))
        what = f"the model {name!r:.200} does not exist; this server has {known}"
        raise ApiError(404, what, code="model_not_found", param="model")
    return models[name]


def with_plain_names(request: ApiRequest) -> tuple[ApiRequest, dict[str, str]]:
    """The request with plain names of tools, see `constrained.chat.plain_names`, and the client's names by them."""
    plain = plain_names(request.tools) if isinstance(request, ChatRequest) and request.tools else {}
    if not plain or not isinstance(request, ChatRequest):
        return request, {}
    messages = []
    for message in request.messages:
        calls = copy.deepcopy(message.tool_calls)
        for call in calls or ():
            call.function.name = plain.get(call.function.name, call.function.name)
        messages.append(message.model_copy(update={"tool_calls": calls}))
    changed = request.model_copy(
        update={
            "tools": renamed(request.tools, plain),
            "tool_choice": renamed(request.tool_choice, plain),
            "messages": messages,
        }
    )
    return changed, {short: name for name, short in plain.items()}
