"""Bytes of the prompt that go on from what is being written.

Tokens of a document seldom recur as they stand: " Berlin" in prose and "Berlin" after a quote are different ids. So what
is compared is bytes: the longest end of the text that the document holds, and what follows it there, as a JSON string
would write it.
"""

from __future__ import annotations

from tests.reference.spec.context import DraftContext
from tests.reference.spec.layout import SPACE
from tests.reference.spec.sources.base import DraftSource, DraftToken

_LENGTHS = (24, 16, 12, 8, 6, 5, 4, 3, 2, 1)
_AHEAD = 40
_OCCURRENCES = 3
_PRIORS = (0.6, 0.6, 0.4, 0.2, 0.3)


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
                ends = what_follows(document, place) if whole else 0
                kind += 256 * ends if ends > 1 else 0
                return [
                    (token, _PRIORS[ends] / (rank + 1), kind + min(rank, 3) + 4 * (hits > 1))
                    for rank, token in enumerate(ranked)
                ]
        return []


def what_follows(document: bytes, place: DraftContext) -> int:
    """What stands in a document behind the value that is being written.

    0: it is not there; 1: the word goes on; 2: white space; 3: another end of a word; 4: several of these.
    """
    path, value = place.json_path, _value(place)
    if path is None or value is None or len(path.partial) == 48:
        return 0
    value = value if path.quoted else value.lstrip(SPACE)
    found: set[int] = set()
    at, hits = (document.find(value), 0) if value else (-1, 0)
    while at >= 0 and hits < 64:
        hits += 1
        rest = document[at + len(value) :]
        if not (at and _in_word(document[at - 1 :]) and _in_word(document[at:])):
            goes_on = _in_word(rest) or (rest[:1] not in b" \n\t\r" and _in_word(rest[1:]))
            found.add(1 if goes_on else 2 if rest and rest[:1] in SPACE else 3)
        at = document.find(value, at + 1)
    return 0 if not found else 4 if len(found) > 1 else found.pop()


def _in_word(text: bytes) -> bool:
    return bool(text) and (text[:1].isalnum() or text[0] >= 0x80)


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
