"""The class of the token at which a pass ended, by where it stands in a JSON text."""

from __future__ import annotations

from constrained.bench.replay.slots import SlotReader

PLACES = (
    "start of a name",
    "inside a name",
    "end of a name",
    "start of a string",
    "inside a string",
    "end of a string",
    "start of a number",
    "inside a number",
    "end of a number",
    "start of another value",
    "behind a value",
    "end of the text",
)
"""Classes of tokens."""

_QUOTE = '"'
_NUMBER = "0123456789.eE+-"


def token_class(before: str, token: str) -> str:
    """Out of `PLACES`.

    Args:
        before: the text before the token.
        token: its text.
    """
    reader = SlotReader()
    for character in before:
        reader.read(character)
    first = token.lstrip()[:1]
    if reader.quoted:
        ends = token[:1] == '"' and not reader.escaped
        what = "name" if reader.kind == "key" else "string"
        return f"{'end of' if ends else 'start of' if reader.partial == _QUOTE else 'inside'} a {what}"
    if reader.kind == "key":
        return "behind a value" if first == "}" else "start of a name"
    if reader.kind == "colon":
        return "end of a name"
    written = reader.partial.lstrip(":,[ \n\t")
    if reader.kind == "after" or not first or (not written and first in ",]}"):
        return "behind a value"
    if written[:1].isdigit() or written[:1] == "-":
        return "inside a number" if token[:1] in _NUMBER else "end of a number"
    if not written and (first.isdigit() or first == "-"):
        return "start of a number"
    return "start of another value" if not written else "behind a value"
