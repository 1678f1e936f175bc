"""Escaping of reference tokens in JSON Pointers (RFC 6901, section 3)."""

from __future__ import annotations


def escape(token: str) -> str:
    """Escapes a member name, so that it can stand between slashes."""
    return token.replace("~", "~0").replace("/", "~1")


def unescape(token: str) -> str:
    """Returns the member name that an escaped reference token stands for."""
    return token.replace("~1", "/").replace("~0", "~")
