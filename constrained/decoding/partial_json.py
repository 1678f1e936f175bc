"""Reads a prefix of a JSON text: the value it has so far, and which value is open at its end."""

from __future__ import annotations

import json
import re
from typing import Any

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|\s+', re.DOTALL)
_BROKEN_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")
_LONE_SURROGATE = re.compile(r"(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_CLOSER = {"{": "}", "[": "]"}


def partial_json(text: str) -> Any:
    """The value of a prefix of a JSON text.

    Open arrays and objects are closed. An unfinished string value is kept, without an incomplete escape or surrogate
    pair; an unfinished number or literal, a key without a value, and a trailing comma are left out.

    Args:
        text: a prefix of a valid JSON text.

    Returns:
        The value, or None before the first one.
    """
    closers: list[str] = []
    said = ""  # the part that parses once its brackets are closed
    pending: list[str] = []  # a comma, a key, a colon: kept only if a value follows
    key_next = False
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:  # an unfinished string
            if not key_next:
                said += "".join(pending) + _closed_string(text[at:])
            break
        token, at = match.group(), match.end()
        if token in "}]":
            said += token
            pending.clear()
            closers.pop()
            key_next = False
        elif token in ",:":
            pending.append(token)
            key_next = token == "," and closers[-1:] == ["}"]
        elif token.isspace():
            continue
        elif key_next and token[0] == '"':
            pending.append(token)
        elif token[0] not in '{["' and at == len(text):  # a number or a literal that may continue
            break
        else:
            said += "".join(pending) + token
            pending.clear()
            if token in _CLOSER:
                closers.append(_CLOSER[token])
                key_next = token == "{"
            else:
                key_next = False
    return json.loads(said + "".join(reversed(closers))) if said else None


def open_pointer(text: str) -> str:
    """The JSON pointer (RFC 6901) of the value that is open at the end of a prefix of a JSON text.

    A value is open from the colon or comma before it until it is complete. Between members, and inside of a name,
    the open value is the object; a number at the end is open, since it may continue.

    Args:
        text: a prefix of a valid JSON text.

    Returns:
        The pointer; ``""`` for the top-level value.
    """
    path: list[
        str | int | None
    ] = []  # by open container: the key or index of its open value, None between values
    kinds: list[str] = []
    name = ""
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:  # an unfinished string
            break
        token, at = match.group(), match.end()
        if token in "{[":
            kinds.append(token)
            path.append(0 if token == "[" else None)
            continue
        if token == ":":
            path[-1] = name
        elif token == "," and kinds[-1] == "[":
            path[-1] = _index(path[-1]) + 1
        elif token == ",":
            path[-1] = None
        elif token in "}]":
            kinds.pop()
            path.pop()
            _close(path)
        elif token[0] == '"' and kinds[-1:] == ["{"] and path[-1] is None:
            name = json.loads(token)
        elif not token.isspace() and (token[0] == '"' or at < len(text)):
            _close(path)
    keys = [key for key in path if key is not None and not (isinstance(key, int) and key < 0)]
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def _index(place: str | int | None) -> int:
    """The index of an array's last value; closed values are stored as -1 - index."""
    assert isinstance(place, int)
    return place if place >= 0 else -1 - place


def _close(path: list[str | int | None]) -> None:
    """Marks the open value of the innermost container as complete."""
    if path:
        last = path[-1]
        path[-1] = -1 - last if isinstance(last, int) else None


def _closed_string(text: str) -> str:
    """An unfinished string literal, closed, without an incomplete escape or surrogate pair."""
    text = _BROKEN_ESCAPE.sub(r"\1", text)
    return _LONE_SURROGATE.sub(r"\1", text) + '"'
