"""Texts as tokens without a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping

_LONGEST = 32


def longest_tokens(data: bytes, ids: Mapping[bytes, int]) -> list[int]:
    """A text as the longest token of at most 32 bytes at each place.

    Args:
        data: the text.
        ids: id by bytes, as `Vocabulary.ids_by_bytes`; every single byte of the text is among them.
    """
    found, at = [], 0
    while at < len(data):
        size = next(
            size for size in range(min(_LONGEST, len(data) - at), 0, -1) if data[at : at + size] in ids
        )
        found.append(ids[data[at : at + size]])
        at += size
    return found
