"""Bytes of the prompt that go on from what is being written.

Tokens of a document seldom recur as they stand: " Berlin" in prose and "Berlin" after a quote are different ids. So what
is compared is bytes: the longest end of the text that the document holds, and what follows it there, as a JSON string
would write it.
"""

from __future__ import annotations

import re

from tests.reference.spec.context import DraftContext
from tests.reference.spec.sources.base import DraftSource, DraftToken

_LENGTHS = (24, 16, 12, 8, 6, 5, 4, 3, 2, 1)
_AHEAD = 40
_OCCURRENCES = 3
_SPAN = re.compile(rb"[0-9][0-9.,:/-]*[0-9]|[0-9]|[A-Za-z\x80-\xff][^\s,;:!?\"()]*")


class PromptLookup(DraftSource):
    """Continuations out of a document.

    Attributes:
        document: bytes.
    """

    def __init__(self, document: bytes) -> None:
        self.document = document

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The first tokens of what follows the longest matches."""
        document = self.document
        tokens = _value(place)
        if not document or tokens is None:
            return []
        pieces = place.request.pieces
        for level, length in enumerate(_LENGTHS):
            if length > len(tokens):
                continue
            end = tokens[-length:]
            at = document.find(end)
            if at < 0:
                continue
            whole = length == len(tokens)
            found: dict[int, int] = {}
            hits = 0
            while at >= 0 and hits < _OCCURRENCES:
                hits += 1
                # A value that began anywhere is best continued where a word begins.
                ahead = document[at + length : at + length + _AHEAD]
                if not (whole and length < 4 and at and _inside(document[at - 1 : at + 1])):
                    token = pieces.next_token(place.recent_bytes, _escaped(ahead))
                    if token is not None:
                        found[token[0]] = found.get(token[0], 0) + 1
                at = document.find(end, at + 1)
            if found:
                ranked = sorted(found, key=lambda token: -found[token])
                kind = level * 16 + whole * 8
                return [
                    (token, 0.6 / (rank + 1), kind + min(rank, 3) + 4 * (hits > 1))
                    for rank, token in enumerate(ranked)
                ]
        return []


def _value(place: DraftContext) -> bytes | None:
    """What has been written of the current value; None where none can be copied."""
    path = place.json_path
    if path is None:
        return place.recent_bytes
    if path.kind != "value":
        return None
    return path.partial[1:] if path.partial[:1] in (b'"', b":", b",", b"[") else path.partial


def _inside(two: bytes) -> bool:
    """Whether the second of two bytes goes on with a word."""
    return two[:1].isalnum() and two[1:].isalnum()


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
