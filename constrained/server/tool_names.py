"""Tool names with dots and slashes, as servers of the Model Context Protocol have them.

Models and their chat templates know names of letters, digits, ``_`` and ``-``. A request with other names is rewritten before
anything else sees it, and the names of calls are mapped back in its response.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from constrained.server.requests import ApiRequest, ChatRequest

_MAPPED = re.compile(r"(?=.*[./])[a-zA-Z0-9_./-]{1,64}")


def with_plain_names(request: ApiRequest) -> tuple[ApiRequest, dict[str, str]]:
    """A request whose tools have plain names, and the names of the client by them; itself where all names are plain.

    Names that are not made of letters, digits and ``_-./`` stay as they are, to be refused by name.
    """
    if not isinstance(request, ChatRequest) or not request.tools:
        return request, {}
    names = list(_names(request.tools))
    taken = set(names)
    plain: dict[str, str] = {}
    for name in names:
        if name not in plain and _MAPPED.fullmatch(name):
            plain[name] = _free(re.sub(r"[./]", "_", name), taken)
            taken.add(plain[name])
    if not plain:
        return request, {}
    changed = request.model_copy(
        update={
            "tools": _renamed(request.tools, plain),
            "tool_choice": _renamed(request.tool_choice, plain),
            "messages": [
                message.model_copy(update={"tool_calls": _renamed_calls(message.tool_calls, plain)})
                for message in request.messages
            ],
        }
    )
    return changed, {short: name for name, short in plain.items()}


def _names(tools: list[dict[str, Any]]) -> Iterator[str]:
    for tool in tools:
        function = tool.get("function", tool)
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            yield name


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name[: 63 - len(str(number))]}_{number}"
    return found


def _renamed(value: Any, plain: dict[str, str]) -> Any:
    """Tools or a tool choice with other names; nothing else in them changes."""
    if isinstance(value, list):
        return [_renamed(one, plain) for one in value]
    if isinstance(value, str):
        return plain.get(value, value)
    if not isinstance(value, dict):
        return value
    changed = dict(value)
    for key in ("function", "name"):
        if key in changed:
            changed[key] = _renamed(changed[key], plain)
    return changed


def _renamed_calls(calls: Any, plain: dict[str, str]) -> Any:
    renamed = copy.deepcopy(calls)
    for call in renamed or ():
        call.function.name = plain.get(call.function.name, call.function.name)
    return renamed
