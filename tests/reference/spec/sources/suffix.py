"""Long repetitions: the past text with the longest common end, and what it went on with (SuffixDecoding, SAM-Decoding)."""

from __future__ import annotations

from tests.reference.spec.context import CONTEXT_TOKENS, DraftContext
from tests.reference.spec.sources.base import DraftSource, DraftToken

_LEAST = 4
_LIMIT = 1 << 20


class OutputHistory:
    """Texts that were written, one after the other, and where each context of `_LEAST` tokens last stood.

    Attributes:
        tokens: of all texts.
        ends: the last tokens -> where they ended, the latest last.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ends: dict[tuple[int, ...], list[int]] = {}

    def add(self, tail: tuple[int, ...], token: int) -> None:
        """Appends a token that followed others; starts afresh when there are too many."""
        if len(self.tokens) >= _LIMIT:
            self.tokens.clear()
            self.ends.clear()
        self.tokens.append(token)
        if len(tail) >= _LEAST:
            ends = self.ends.setdefault(tail[-_LEAST:], [])
            ends.append(len(self.tokens) - 1)
            del ends[:-8]


class SuffixLookup(DraftSource):
    """Guesses by the longest match.

    Attributes:
        past: texts.
    """

    def __init__(self, past: OutputHistory) -> None:
        self.past = past

    def propose(self, place: DraftContext) -> list[DraftToken]:
        """What followed the longest matches, the latest first."""
        ends = self.past.ends.get(place.recent_tokens[-_LEAST:])
        if not ends or len(place.recent_tokens) < _LEAST:
            return []
        tokens, tail = self.past.tokens, place.recent_tokens
        best = 0
        found: dict[int, int] = {}
        for end in reversed(ends):
            length = _LEAST
            while length < len(tail) and length < end and tokens[end - 1 - length] == tail[-1 - length]:
                length += 1
            if length > best:
                best, found = length, {}
            if length == best:
                found[tokens[end]] = found.get(tokens[end], 0) + 1
        total = sum(found.values())
        return [
            (token, count / (total + 1), min(best, CONTEXT_TOKENS) * 64 + min(count, 7) * 8 + min(total, 7))
            for token, count in found.items()
        ]

    def learn(self, place: DraftContext, token: int) -> None:
        """Appends the token."""
        self.past.add(place.recent_tokens, token)
