"""Where in a JSON value a text stands, followed byte by byte: the names on the way, and what was said since the last turn.

Two places with equal `JsonPath` are the same slot of similar values: element numbers do not count, so all elements of an
array share their slots. Any bytes may come; for what is no JSON the path means nothing, and does no harm.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class JsonPath(NamedTuple):
    """Where a text stands.

    Attributes:
        names: of the open containers, outermost first: the last member's name, or ``[]`` for an array.
        name: the last member's name in the innermost container, or what is known of it.
        kind: ``key`` (a name is due or being written), ``value``, or ``advance`` one.
        partial: bytes since the key, the value or the separator began.
        quoted: inside a string literal.
        escaped: after a backslash in it.
    """

    names: tuple[bytes, ...] = ()
    name: bytes = b""
    kind: str = "value"
    partial: bytes = b""
    quoted: bool = False
    escaped: bool = False


JSON_START = JsonPath()
_LONGEST = 48  # bytes of `said` and of names that count
_DEEPEST = 12
_SPACE = b" \n\t\r"
_OPEN, _CLOSE = b"{[", b"}]"


@lru_cache(8192)
def advance(path: JsonPath, piece: bytes) -> JsonPath:
    """Where the text stands after more bytes."""
    names, name, kind, text, quoted, escaped = path
    for value in piece:
        byte = bytes((value,))
        if quoted:
            text = (text + byte)[:_LONGEST]
            if escaped:
                escaped = False
            elif byte == b"\\":
                escaped = True
            elif byte == b'"':
                quoted = False
                if kind == "key":
                    name, kind, text = text, "colon", b""
                else:
                    kind, text = "after", b""
        elif byte == b'"':
            quoted = True
            text = byte
        elif byte in _OPEN:
            names = (*names, name)[-_DEEPEST:]
            name, kind, text = (b"", "key", byte) if byte == b"{" else (b"[]", "value", byte)
        elif byte in _CLOSE:
            name = names[-1] if names else b""
            names = names[:-1]
            kind, text = "after", b""
        elif byte == b",":
            kind, text = ("value" if name == b"[]" else "key"), byte
        elif byte == b":":
            kind, text = "value", byte
        else:
            text = (text + byte)[:_LONGEST]
    return JsonPath(names, name, kind, text, quoted, escaped)
