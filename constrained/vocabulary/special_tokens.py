"""Special tokens in texts: each is one byte that is in no UTF-8 text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from constrained.errors import VocabularyError

_MARKS = bytes((*range(0xFF, 0xF4, -1), 0xC1, 0xC0))
"""Bytes that are in no UTF-8 text."""


def encode_with_special(text: str, special: Iterable[str]) -> bytes:
    """Encodes a text whose special tokens are written by name, for the grammar of a `Constraint`."""
    data = text.encode()
    for name, mark in letters(special).items():
        data = data.replace(name.encode(), mark)
    return data


def letters(names: Iterable[str]) -> dict[str, bytes]:
    """The byte that stands for each of some special tokens; a name before those that are part of it."""
    ordered = sorted(names, key=lambda name: (-len(name), name))
    return {name: bytes((mark,)) for name, mark in zip(ordered, _MARKS, strict=False)}


def free_letters(names: Iterable[str]) -> list[bytes]:
    """The bytes that are in no text and stand for none of these special tokens."""
    return [bytes((mark,)) for mark in _MARKS[len(set(names)) :]]


def marked_tokens(
    tokens: Sequence[bytes], special: Mapping[str, int], eos_ids: Sequence[int], names: frozenset[str]
) -> tuple[list[bytes], dict[int, bytes]]:
    """The bytes per token id where the tokens of these names are one byte each, and the texts of these tokens by id.

    A name is that of a special token, the text of an ordinary one, or as ``<[5]>`` or ``<[5-9,12]>`` numbers. Of several
    numbers those that end a sequence are left out: nothing follows them.

    Raises:
        VocabularyError: a token does not exist, ends a sequence or has two names, or there are too many names.
    """
    marks = letters(names)
    if len(marks) < len(names):
        raise VocabularyError(f"{len(names)} special tokens in texts", action=f"use at most {len(_MARKS)}")
    mark_bytes = set(b"".join(marks.values()))
    table = [b"" if mark_bytes.intersection(token) else token for token in tokens]
    named: dict[int, str] = {}
    names_of = {token: name for name, token in special.items()}
    texts: dict[int, bytes] = {}
    for name, mark in marks.items():
        for token in _ids(name, tokens, special, eos_ids):
            if token in named:
                raise VocabularyError(
                    f"token {token} has two names: {named[token]!r} and {name!r}",
                    action="write it in one way, wherever it stands",
                )
            named[token] = name
            numbered = _NUMBERS.match(name)
            texts[token] = (
                tokens[token] or names_of.get(token, f"<[{token}]>").encode() if numbered else name.encode()
            )
            table[token] = mark
    return table, texts


_NUMBERS = re.compile(r"<\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]>\Z", re.ASCII)


def _ids(name: str, tokens: Sequence[bytes], special: Mapping[str, int], eos_ids: Sequence[int]) -> list[int]:
    """The ids of the tokens of a name."""
    if (numbers := _NUMBERS.match(name)) is not None:
        return _numbered(name, numbers[1], tokens, eos_ids)
    token = special.get(name)
    if token is None and len(data := name.encode()) > 1 and data in tokens:
        # Some tokenizers have their markup as ordinary tokens. A text can be written without this one; a token
        # that is a single byte may be the only way to write it.
        token = tokens.index(data)
    if token is None or token in eos_ids:
        what = "ends a sequence" if token is not None else "is no special token of this tokenizer"
        known = ", ".join(list(special)[:8]) or "none"
        raise VocabularyError(f"{name!r} {what}", action=f"use another one; known: {known}")
    return [token]


def _numbered(name: str, numbers: str, tokens: Sequence[bytes], eos_ids: Sequence[int]) -> list[int]:
    found: list[int] = []
    for part in numbers.split(","):
        low, _, high = part.partition("-")
        if int(high or low) >= len(tokens):
            raise VocabularyError(
                f"{name!r} has a token outside of a vocabulary of {len(tokens)}",
                action=f"the last token is {len(tokens) - 1}",
            )
        found += (token for token in range(int(low), int(high or low) + 1) if token not in eos_ids)
    if not found:
        raise VocabularyError(f"{name!r} ends a sequence", action="leave it out, or name another token")
    letter = next((token for token in found if len(tokens[token]) == 1), None)
    if letter is not None:
        raise VocabularyError(
            f"token {letter} of {name!r} is the single byte {tokens[letter]!r}, and texts may need it as a part",
            action="name special tokens, or tokens of several bytes",
        )
    return found
