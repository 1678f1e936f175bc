"""At the start of a value: the document's words and numbers that no value has used yet, by the shapes of values of this name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.reference.spec.context import DraftContext
from tests.reference.spec.layout import SPACE, Layout
from tests.reference.spec.sources.base import DraftSource, DraftToken

_SPAN = re.compile(rb"[0-9](?:[0-9.,:/-]*[0-9])?|[A-Za-z\x80-\xff][^\t-\r ,;:!?\"()]*")
_NUMBER = b"0123456789.eE+-"
_MOST, _SPANS, _AHEAD, SHAPES = 8, 1024, 40, 7

ValueShapes = dict[bytes, list[int]]
"""By name: how often its values began with a word of each shape."""


@dataclass
class _Span:
    begin: int
    text: bytes
    count: int = 1
    used: bool = False

    @property
    def shape(self) -> int:
        return shape_of(self.text)

    @property
    def number(self) -> bytes:
        """Without separators; empty for what is none."""
        return self.text.replace(b",", b"") if self.shape in (0, 2) else b""


class DocumentSpans(DraftSource):
    """Guesses at the first tokens of values."""

    def __init__(self, document: bytes, shapes: ValueShapes, layout: Callable[[], Layout]) -> None:
        self._document, self._shapes, self._layout = document, shapes, layout
        spans: dict[bytes, _Span] = {}
        for match in _SPAN.finditer(document):
            if match[0] in spans:
                spans[match[0]].count += 1
            elif len(spans) < _SPANS:
                spans[match[0]] = _Span(match.start(), match[0])
        self._spans = list(spans.values())

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """The first tokens of spans, the most expected shape and the rarest words first."""
        path, layout = place.json_path, self._layout()
        if path is None or path.kind != "value":
            return []
        before = b""
        if path.quoted:
            if path.partial != b'"':
                return []
        else:
            first, rest = path.partial[:1], path.partial[1:]
            if first not in (b":", b",", b"[") or rest.strip(SPACE):
                return []
            usual = layout[b":,{[".index(first)]
            if not rest and usual == b"\n":
                return []
            before = b"" if rest else usual
        counts = self._shapes.get(path.name, [0] * SHAPES)
        total = sum(counts)
        ranked = []
        for number, span in enumerate(self._spans):
            if span.used or not (path.quoted or span.number):
                continue
            came = counts[span.shape]
            level = (
                2
                if not total
                else 0
                if 4 * came >= 3 * total
                else 1
                if 4 * came >= total
                else 2
                if came
                else 3
            )
            ranked.append((level * 4 + min(span.count, 4) - 1, number))
        found: dict[int, DraftToken] = {}
        for rank, (level, number) in enumerate(sorted(ranked)[:_MOST]):
            span = self._spans[number]
            ahead = before + span.number
            if path.quoted:
                ahead = self._document[span.begin : span.begin + _AHEAD]
                ahead = ahead.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            token = place.request.pieces.next_token(place.recent_bytes, ahead)
            if token is not None and token[0] not in found:
                kind = ((rank * 16 + level) * 2 + (total > 0)) * 2 + path.quoted
                found[token[0]] = (token[0], 0.1 / (rank + 1), kind)
        return list(found.values())

    def learn(self, place: DraftContext, token: int) -> None:
        """Where the token ends a value: what it used of the document, and its shape."""
        path, piece = place.json_path, place.request.automaton.vocabulary.tokens[token]
        if not self._spans or path is None or path.kind != "value" or path.escaped:
            return
        if path.quoted:
            if b'"' not in piece:
                return
            value = path.partial[1:] + piece.split(b'"', 1)[0]
        else:
            value = path.partial.lstrip(b":,[" + SPACE)
            rest = piece.lstrip(_NUMBER)
            if not value[:1].isdigit() or not rest:
                return
            value += piece[: len(piece) - len(rest)]
        match = _SPAN.match(value)
        if match is None:
            return
        self._shapes.setdefault(path.name, [0] * SHAPES)[shape_of(match[0])] += 1
        at = self._document.find(value) if path.quoted else -1
        for span in self._spans:
            within = at >= 0 and at <= span.begin < at + len(value)
            span.used = span.used or within or (not path.quoted and span.number == value)


def shape_of(span: bytes) -> int:
    """Digits, dates and times, other numbers, addresses, codes, capitalised words, other words: 0 .. 6."""
    if span[:1].isdigit():
        return 0 if span.isdigit() else 1 if re.search(rb"[-:/]", span) else 2
    if re.search(rb"[@/]", span):
        return 3
    return 4 if re.search(rb"[0-9_]", span) else 5 if b"A" <= span[:1] <= b"Z" else 6
