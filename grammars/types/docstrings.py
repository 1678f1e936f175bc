"""Descriptions of classes, functions and their fields, from docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

_SECTION = re.compile(
    r"(Args|Arguments|Attributes|Fields|Parameters|Returns|Raises|Yields|Examples?|Notes?|See Also|Todo):\s*"
)
_FIELD_SECTIONS = frozenset({"Args", "Arguments", "Attributes", "Fields", "Parameters"})
_ENTRY = re.compile(r"(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")


def own_docstring(thing: Any) -> str:
    """The docstring that a class or function was written with; not an inherited or generated one."""
    if isinstance(thing, type):
        text = vars(thing).get("__doc__")
        # `dataclass` and `NamedTuple` write the signature where no docstring is, old versions of `Enum` a phrase.
        if not isinstance(text, str) or text.startswith(f"{thing.__name__}(") or text == "An enumeration.":
            return ""
    else:
        text = getattr(thing, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def split_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Splits a Google-style docstring into the text before its sections and the descriptions of fields.

    Returns:
        The text, and field name -> description from `Args:` and `Attributes:`, each on one line.
    """
    lead: list[str] = []
    fields: dict[str, str] = {}
    section: str | None = None
    indent: int | None = None
    name = ""
    for line in docstring.splitlines():
        heading = _SECTION.fullmatch(line)
        if heading:
            section, indent, name = heading[1], None, ""
        elif section is None:
            lead.append(line)
        elif section in _FIELD_SECTIONS and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            entry = _ENTRY.fullmatch(line.strip()) if depth == indent else None
            if entry:
                name = entry["name"].lstrip("*")
                fields[name] = entry["text"]
            elif name:
                fields[name] = f"{fields[name]} {line.strip()}".strip()
    return "\n".join(lead).strip(), fields
