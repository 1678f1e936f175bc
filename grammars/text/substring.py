"""The language of the substrings of a document, and its relaxations: any case, any white space, whole words.

The core matches them with a suffix array (`ir.Substring`), so a document of 200,000 characters is compiled in a fraction
of a second. Here its characters are numbered: characters that the relaxation does not tell apart share a number.
"""

from __future__ import annotations

import itertools
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

from constrained.grammars import ir
from constrained.grammars.errors import (
    ConstraintTooLarge,
    InvalidConstraint,
    Problem,
    UnsatisfiableConstraint,
)

MAX_DOCUMENT_LENGTH = 4_000_000
"""Characters of the longest document."""


def substring_grammar(text: str, *, min_length: int = 1) -> ir.Grammar:
    """The grammar of the substrings of a document; they start and end at any character. As `substring_regex`."""
    return ir.Grammar.of(substring_regex(text, min_length=min_length))


def substring_regex(
    text: str,
    *,
    min_length: int = 1,
    any_case: bool = False,
    any_space: bool = False,
    whole_words: bool = False,
) -> ir.Regex:
    """The substrings of a document.

    Args:
        text: the document, up to `MAX_DOCUMENT_LENGTH` characters.
        min_length: characters of the shortest substring; 0 allows the empty string.
        any_case: a character may be replaced by one with the same simple case folding (`simple_fold`).
        any_space: a run of white space may also be written as one space.
        whole_words: a substring neither starts nor ends inside a word (`is_word_character`).

    Raises:
        InvalidConstraint: the document is not valid Unicode, or the length is negative.
        UnsatisfiableConstraint: the document is shorter than `min_length`.
        ConstraintTooLarge: the document is too long.
    """
    if len(text) > MAX_DOCUMENT_LENGTH:
        raise ConstraintTooLarge(
            "the document is too long for a substring grammar",
            Problem("document", f"has {len(text)} characters; at most {MAX_DOCUMENT_LENGTH} can be compiled"),
            action="pass the passages that matter",
        )
    if min_length < 0:
        raise InvalidConstraint(f"min_length is {min_length}", action="use min_length=0 or more")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidConstraint(
            "the document is not valid Unicode text", Problem(f"character {error.start}", error.reason)
        ) from None
    if len(text) < min_length:
        raise UnsatisfiableConstraint(
            "the document has no substring of min_length characters",
            Problem("document", f"has {len(text)} characters; min_length is {min_length}"),
        )
    characters = set(text)
    if any_space:
        characters.add(" ")
    representatives = {char: simple_fold(char) if any_case else char for char in characters}
    order = {"space": 0, "other": 1, "word": 2}
    kinds = {
        char: "space"
        if any_space and char.isspace()
        else "word"
        if whole_words and is_word_character(char)
        else "other"
        for char in set(representatives.values())
    }
    numbered = sorted(kinds, key=lambda char: (order[kinds[char]], char))
    numbers = {char: number for number, char in enumerate(numbered)}
    table = {ord(char): chr(numbers[shared]) for char, shared in representatives.items()}
    alike = _alike() if any_case else {}
    spaces = sum(kind == "space" for kind in kinds.values())
    return ir.Substring(
        text.translate(table),
        tuple(tuple(other.encode() for other in alike.get(char, (char,))) for char in numbered),
        spaces=spaces,
        words=sum(kind != "word" for kind in kinds.values()),
        space=numbers[" "] if any_space else 0,
        least=min_length,
        whole_words=whole_words,
    )


def substring_of_chunks(chunks: Sequence[str], *, min_length: int = 0) -> ir.Substring:
    """Any number of consecutive chunks of a document, joined.

    Args:
        chunks: the document, up to `MAX_DOCUMENT_LENGTH` characters.
        min_length: 0 to allow the empty string, 1 not to.

    Raises:
        InvalidConstraint: a chunk is not valid Unicode.
        ConstraintTooLarge: the document is too long.
    """
    whole = substring_regex("".join(chunks), min_length=0)
    assert isinstance(whole, ir.Substring)
    starts = frozenset(itertools.accumulate(map(len, chunks), initial=0))
    return ir.Substring(whole.symbols, whole.spellings, least=min_length, chunk_starts=starts)


def simple_fold(char: str) -> str:
    """The simple case folding of a character (CaseFolding.txt of Unicode, status C and S)."""
    folded = char.casefold()
    if len(folded) == 1:
        return folded
    lower = (
        char.lower()
    )  # where the full folding has several characters, the simple one is the lower case, if any
    return lower if len(lower) == 1 else char


@cache
def _alike() -> dict[str, tuple[str, ...]]:
    """The characters with an equal simple case folding, by that folding; without those that are alone."""
    found: dict[str, list[str]] = {}
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if char.casefold() != char and not 0xD800 <= code <= 0xDFFF:
            found.setdefault(simple_fold(char), []).append(char)
    return {folded: tuple(sorted({folded, *chars})) for folded, chars in found.items()}


@cache
def is_word_character(char: str) -> bool:
    """Whether a character belongs to words: letters, digits, combining marks, connectors such as ``_``."""
    category = unicodedata.category(char)
    return category[0] in "LNM" or category == "Pc"
