"""A request whose tools have plain names, see `constrained.chat.plain_names`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from constrained.chat.plain_names import plain_names, renamed
from constrained.server.requests import ApiRequest, ChatRequest


def with_plain_names(request: ApiRequest) -> tuple[ApiRequest, dict[str, str]]:
    """The request under plain names, and the names of the client by them; itself where all names are plain."""
    if not isinstance(request, ChatRequest) or not request.tools:
        return request, {}
    plain = plain_names(request.tools)
    if not plain:
        return request, {}
    changed = request.model_copy(
        update={
            "tools": renamed(request.tools, plain),
            "tool_choice": renamed(request.tool_choice, plain),
            "messages": [
                message.model_copy(update={"tool_calls": _renamed_calls(message.tool_calls, plain)})
                for message in request.messages
            ],
        }
    )
    return changed, {short: name for name, short in plain.items()}


def _renamed_calls(calls: Any, plain: Mapping[str, str]) -> Any:
    changed = copy.deepcopy(calls)
    for call in changed or ():
        call.function.name = plain.get(call.function.name, call.function.name)
    return changed
