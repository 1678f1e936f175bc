"""Tool names with dots and slashes, as servers of the Model Context Protocol have them.

Models and their chat templates know names of letters, digits, ``_`` and ``-``. Tools with other names are shown under plain ones, and
the names of calls are mapped back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from constrained.chat.tools import described

_MAPPED = re.compile(r"(?=.*[./])[a-zA-Z0-9_./-]{1,64}")


def plain_names(tools: Sequence[Any]) -> dict[str, str]:
    """Plain names for the tools that have none, by their own names.

    Names that are not made of letters, digits and ``_-./`` get none: `parse_tools` refuses them by name.

    Args:
        tools: as OpenAI clients define them; what is malformed is skipped.
    """
    names = list(_names(tools))
    taken = set(names)
    plain: dict[str, str] = {}
    for name in names:
        if name not in plain and _MAPPED.fullmatch(name):
            plain[name] = _free(re.sub(r"[./]", "_", name), taken)
            taken.add(plain[name])
    return plain


def renamed(value: Any, plain: Mapping[str, str]) -> Any:
    """Tools, a tool choice or calls with plain names; nothing else in them changes."""
    if isinstance(value, list):
        return [renamed(one, plain) for one in value]
    if isinstance(value, str):
        return plain.get(value, value)
    if not isinstance(value, dict):
        return value
    changed = dict(value)
    for key in ("function", "custom", "name", "allowed_tools", "tools"):
        if key in changed:
            changed[key] = renamed(changed[key], plain)
    return changed


def _names(tools: Sequence[Any]) -> Iterator[str]:
    for tool in tools:
        function = described(tool)
        name = function.get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str):
            yield name


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name[: 63 - len(str(number))]}_{number}"
    return found
