"""Splits a long text into overlapping chunks, by paragraphs and sentences, under a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

import regex

_PARAGRAPH_END = regex.compile(r"\n[^\S\n]*\n\s*|\f\s*|\u2029\s*")
_NO_END = r"(?m:^)[^\S\n]{0,8}\d{1,3}|\b(?:\p{Lu}|Mr|Mrs|Ms|Dr|Prof|St|No|Nr|vs|Jr|Sr)"
"""Behind a number that begins a line, an initial and some titles a full stop ends no sentence."""
_SENTENCE_END = regex.compile(rf"(?:(?<!{_NO_END})[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|\n)\s*")
ANDS = ("and", "und", "et", "y", "e", "en", "och", "og", "és", "i", "и")
"""*And* in some languages."""
_WORD_END = regex.compile(r"\s+")
_GRAPHEME = regex.compile(r"\X")
_LATE = 2 / 3
"""A chunk ends at its last paragraph end if that is behind this part of it."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A part of a text: ``text[start:end]``.

    Attributes:
        start: offset of its first character.
        end: offset behind its last character.
    """

    start: int
    end: int


def split_text(
    text: str, count_tokens: Callable[[str], int], max_tokens: int, overlap: int = 0
) -> list[TextChunk]:
    """Chunks of a text that cover all of it, in order.

    A chunk ends behind a paragraph if one ends in its last third, otherwise behind a sentence; a sentence that is too long
    is split between words, and a word between graphemes. Each chunk repeats the last sentences of the one before.

    Args:
        text: any text.
        count_tokens: number of tokens of a part of it.
        max_tokens: most tokens of a chunk, at least 1 (more only where a single grapheme has more).
        overlap: most tokens that a chunk repeats.
    """
    units = list(_units(text, count_tokens, max_tokens))
    if not units:
        return [TextChunk(0, len(text))]
    sums = [0, *accumulate(tokens for _, tokens, _ in units)]
    ends = [end for end, _, _ in units]
    starts = [0, *ends[:-1]]
    chunks = []
    first = 0
    while True:
        last = first + 1  # units first .. last - 1 are the chunk
        while last < len(units) and sums[last + 1] - sums[first] <= max_tokens:
            last += 1
        if last < len(units):
            enough = sums[first] + _LATE * (sums[last] - sums[first])
            paragraphs = (i for i in range(last, first, -1) if units[i - 1][2] and sums[i] >= enough)
            last = next(paragraphs, last)
        chunks.append(TextChunk(starts[first], ends[last - 1]))
        if last == len(units):
            return chunks
        following = last
        while following - 1 > first and sums[last] - sums[following - 1] <= overlap:
            following -= 1
        # A repeated part must leave room for the next unit, or the chunks would not advance.
        while following < last and sums[last + 1] - sums[following] > max_tokens:
            following += 1
        first = following


def sentences(text: str) -> list[TextChunk]:
    """The sentences of a text and its lines, those that have more than white space."""
    ends = _with_end(sentence_ends(text, 0, len(text)), len(text))
    chunks = (TextChunk(start, end) for start, end in zip([0, *ends], ends, strict=False))
    return [one for one in chunks if text[one.start : one.end].strip()]


def sentence_ends(text: str, start: int, end: int) -> list[int]:
    """Where sentences and lines end in a part of a text, with the white space behind them."""
    return [match.end() for match in _SENTENCE_END.finditer(text, start, end)]


def _units(text: str, count_tokens: Callable[[str], int], max_tokens: int) -> Iterator[tuple[int, int, bool]]:
    """Sentences and parts of sentences: (end, tokens, whether a paragraph ends here)."""
    paragraphs = [match.end() for match in _PARAGRAPH_END.finditer(text)]
    start = 0
    for end in _with_end(paragraphs, len(text)):
        for stop in _split(text, start, end, count_tokens, max_tokens, (_SENTENCE_END, _WORD_END)):
            yield stop, count_tokens(text[start:stop]), stop == end
            start = stop


def _split(
    text: str,
    start: int,
    end: int,
    count_tokens: Callable[[str], int],
    max_tokens: int,
    separators: tuple[regex.Pattern[str], ...],
) -> Iterator[int]:
    """Ends of the parts of ``text[start:end]`` at the first separator; parts that are too long are split further."""
    if not separators:
        yield from _halves(text, start, end, count_tokens, max_tokens)
        return
    ends = [match.end() for match in separators[0].finditer(text, start, end)]
    for stop in _with_end(ends, end):
        if count_tokens(text[start:stop]) > max_tokens:
            yield from _split(text, start, stop, count_tokens, max_tokens, separators[1:])
        else:
            yield stop
        start = stop


def _halves(
    text: str, start: int, end: int, count_tokens: Callable[[str], int], max_tokens: int
) -> Iterator[int]:
    """Ends of parts of a text without spaces; never within a grapheme."""
    pending = [(start, end)]
    while pending:
        start, end = pending.pop()
        middle = _grapheme_end(text, start, end, (start + end) // 2)
        if middle in (start, end) or count_tokens(text[start:end]) <= max_tokens:
            yield end
        else:
            pending += [(middle, end), (start, middle)]


def _grapheme_end(text: str, start: int, end: int, near: int) -> int:
    """The end of the grapheme that covers the character before `near`; at least one grapheme behind `start`."""
    at = max(start, near - 64)  # graphemes are short; a longer one is split
    for match in _GRAPHEME.finditer(text, at, end):
        if match.end() >= max(near, start + 1):
            return int(match.end())
    return end


def _with_end(ends: list[int], end: int) -> list[int]:
    return ends if ends and ends[-1] == end else [*ends, end]
