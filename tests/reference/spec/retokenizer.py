"""How a vocabulary would write bytes as tokens, near enough to guess by, without asking a tokenizer.

Merges of byte-pair vocabularies were made in the order of their ids, so that merging the pair with the lowest id first
gives the tokens a tokenizer gives within a word. Where words end is taken from what common tokenizers agree on; a token
that is longer than a word comes first, as its tokenizer ends words elsewhere. A wrong split costs a guess and nothing else.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tests.reference.spec.protocols import Vocabulary

_WORD = re.compile(
    rb"[^\r\n0-9A-Za-z\x80-\xff]?[A-Za-z\x80-\xff]+|[0-9]{1,3}| ?[^\s0-9A-Za-z\x80-\xff]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LONGEST = 64


class Retokenizer:
    """Splits bytes into tokens of a vocabulary.

    Attributes:
        tokens: bytes by id.
        ids: their ids.
    """

    def __init__(self, words: Vocabulary) -> None:
        self.tokens = words.tokens
        self.ids = words.ids_by_bytes
        self.word = lru_cache(1 << 16)(self._word)
        words_of = {piece: match for piece in self.ids if piece and (match := _WORD.match(piece))}
        self._crossing = {
            piece: self.ids[piece] for piece, word in words_of.items() if word.end() < len(piece)
        }
        self._longest = max(map(len, self._crossing), default=0)

    def split(self, text: bytes) -> list[int]:
        """Tokens of a text; bytes that no token spells are left out with all that follows."""
        found: list[int] = []
        for match in _WORD.finditer(text):
            ids = self.word(match.group())
            if ids is None:
                break
            found += ids
        return found

    def next_token(self, before: bytes, after: bytes) -> tuple[int, bool] | None:
        """The token that comes first in `after`.

        Args:
            before: what the text ends with.
            after: what it goes on with.

        Returns:
            (id, whether it is certain not to run on beyond `after`), or None where no token fits.
        """
        if not after:
            return None
        window = before[-24:] + after[:40]
        cut = len(before[-24:])
        for match in _WORD.finditer(window):
            if match.end() <= cut:
                continue
            begin, end = match.span()
            inside = end < len(window) or len(after) > 40
            if begin < cut:
                at = begin
                for id in self.word(match.group()) or ():
                    if at == cut:
                        return id, inside or at + len(self.tokens[id]) < end
                    at += len(self.tokens[id])
            begin = max(begin, cut)
            across = self._across(window[begin:], end - begin)
            if across is not None:
                return across, len(after) > 40 or begin + len(self.tokens[across]) < len(window)
            ids = self.word(window[begin:end])
            if not ids:
                return None
            return ids[0], inside or len(ids) > 1
        return None

    def _across(self, text: bytes, word: int) -> int | None:
        """The longest token that a text begins with and that is longer than its first word: some tokenizers have `", "`."""
        for length in range(min(self._longest, len(text)), word, -1):
            if text[:length] in self._crossing:
                return self._crossing[text[:length]]
        return None

    def _word(self, word: bytes) -> tuple[int, ...] | None:
        """One word's tokens: the pair with the lowest id is merged first."""
        whole = self.ids.get(word)
        if whole is not None:
            return (whole,)
        ids = self.ids
        parts = [word[i : i + 1] for i in range(len(word))][:_LONGEST]
        if any(part not in ids for part in parts):
            return None
        while len(parts) > 1:
            best, at = -1, -1
            for i in range(len(parts) - 1):
                id = ids.get(parts[i] + parts[i + 1], -1)
                if id >= 0 and (best < 0 or id < best):
                    best, at = id, i
            if at < 0:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return tuple(ids[part] for part in parts)
