"""Parses a prefix of a JSON text into the value it has so far."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+|\s+', re.DOTALL)
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
        match = _TOKEN.match(text, at)
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


def _closed_string(text: str) -> str:
    """An unfinished string literal, closed, without an incomplete escape or surrogate pair."""
    text = _BROKEN_ESCAPE.sub(r"\1", text)
    return _LONE_SURROGATE.sub(r"\1", text) + '"'
