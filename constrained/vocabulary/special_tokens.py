"""Special tokens in texts: each is one byte that is in no UTF-8 text."""

from __future__ import annotations

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


def marked_tokens(
    tokens: Sequence[bytes], special: Mapping[str, int], eos_ids: Sequence[int], names: frozenset[str]
) -> list[bytes]:
    """The bytes per token id where the tokens of these names are one byte each.

    Raises:
        VocabularyError: a token does not exist or ends a sequence, or there are too many names.
    """
    marks = letters(names)
    if len(marks) < len(names):
        raise VocabularyError(f"{len(names)} special tokens in texts", action=f"use at most {len(_MARKS)}")
    mark_bytes = set(b"".join(marks.values()))
    table = [b"" if mark_bytes.intersection(token) else token for token in tokens]
    for name, mark in marks.items():
        token = special.get(name)
        if token is None and len(data := name.encode()) > 1 and data in tokens:
            # Some tokenizers have their markup as ordinary tokens. A text can be written without this one; a token
            # that is a single byte may be the only way to write it.
            token = tokens.index(data)
        if token is None or token in eos_ids:
            what = "ends a sequence" if token is not None else "is no special token of this tokenizer"
            known = ", ".join(list(special)[:8]) or "none"
            raise VocabularyError(f"{name!r} {what}", action=f"use another one; known: {known}")
        table[token] = mark
    return table
