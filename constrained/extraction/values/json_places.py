"""Where the scalars of a JSON text stand in it."""

from __future__ import annotations

import json
import re
from typing import Any

from constrained.constraint.json_text import read_value
from constrained.grammars.json_pointer import escape

_STRINGS = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


def scalar_places(text: str) -> dict[str, tuple[int, int, Any]]:
    """By JSON Pointer: start, end and value of each scalar, quotes included. Not recursive.

    Raises:
        ValueError: the text is not JSON.
    """
    found: dict[str, tuple[int, int, Any]] = {}
    path: list[tuple[str, int | None]] = []  # open containers: pointer, and the index of the item in an array
    pointer, at = "", _skip(text, 0)
    while True:
        if text[at : at + 1] in ("{", "["):
            opened = text[at]
            at = _skip(text, at + 1)
            if text[at : at + 1] == ("}" if opened == "{" else "]"):
                at += 1
            else:
                path.append((pointer, None if opened == "{" else 0))
                pointer, at = _member(text, at, *path[-1])
                continue
        else:
            end, value = _scalar(text, at)
            found[pointer] = (at, end, value)
            at = end
        while path:
            at = _skip(text, at)
            above, index = path[-1]
            if text[at : at + 1] == ",":
                path[-1] = (above, None if index is None else index + 1)
                pointer, at = _member(text, _skip(text, at + 1), *path[-1])
                break
            if text[at : at + 1] not in ("]", "}"):
                raise ValueError(f"not JSON at character {at}")
            path.pop()
            at += 1
        else:
            return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _member(text: str, at: int, above: str, index: int | None) -> tuple[str, int]:
    """The pointer of the next member or item, and where its value begins."""
    if index is not None:
        return f"{above}/{index}", at
    if text[at : at + 1] != '"':
        raise ValueError(f"not JSON at character {at}")
    name, at = _STRINGS.raw_decode(text, at)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"not JSON at character {at}")
    return f"{above}/{escape(name)}", _skip(text, at + 1)


def _scalar(text: str, at: int) -> tuple[int, Any]:
    if text[at : at + 1] == '"':
        value, end = _STRINGS.raw_decode(text, at)
        return end, value
    match = _SCALAR.match(text, at)
    if match is None:
        raise ValueError(f"not JSON at character {at}")
    return match.end(), read_value(match[0])
