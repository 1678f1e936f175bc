"""Encoding of bytes: by the tokenizer where it reproduces them, otherwise by the fewest tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from constrained.errors import VocabularyError
from constrained.vocabulary.tokenizer_info import Encoder

# What Python makes of bytes that are not UTF-8, and turns back into them.
_ESCAPE = "surrogateescape"
_NOT_UTF8 = re.compile("([\udc80-\udcff]+)")


class Tokens(Protocol):
    """What a `Vocabulary` knows of its tokens."""

    @property
    def tokens(self) -> Sequence[bytes]:
        """The bytes of each token."""

    @property
    def ids_by_bytes(self) -> Mapping[bytes, int]:
        """The lowest id of each token's bytes."""

    @property
    def token_lengths(self) -> Sequence[int]:
        """The lengths that tokens have, in bytes, the longest first; without empty ones."""

    def decode(self, ids: Sequence[int]) -> bytes:
        """The bytes of these tokens."""


def encode(vocabulary: Tokens, text: bytes | str, encoder: Encoder | None) -> list[int]:
    """See `Vocabulary.encode`."""
    try:
        data = text.encode("utf-8", _ESCAPE) if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError as error:
        raise VocabularyError(
            f"character {error.start} of the text is half a surrogate pair and has no bytes",
            action="repair the text, or pass bytes",
        ) from None
    ids: list[int] = []
    for stretch in _NOT_UTF8.split(data.decode("utf-8", _ESCAPE)):
        ids += _encode_stretch(vocabulary, stretch, encoder)
    return ids


def _encode_stretch(vocabulary: Tokens, stretch: str, encoder: Encoder | None) -> list[int]:
    data = stretch.encode("utf-8", _ESCAPE)
    if encoder is not None and not _NOT_UTF8.match(stretch):
        ids = encoder(stretch)
        # Used only if the ids decode to `data`, so that no quirk of a tokenizer can change it.
        if vocabulary.decode(ids) == data and all(vocabulary.tokens[token] for token in ids):
            return ids
    return encode_fewest(vocabulary, data)


def encode_fewest(vocabulary: Tokens, data: bytes) -> list[int]:
    """The fewest tokens that spell `data`; ties are broken by the longest first token.

    Raises:
        VocabularyError: no tokens spell it.
    """
    index = vocabulary.ids_by_bytes
    lengths = vocabulary.token_lengths
    unreachable = len(data) + 1
    cost = [unreachable] * len(data) + [0]
    step = [0] * len(data)
    for at in range(len(data) - 1, -1, -1):
        for end in (at + length for length in lengths if length <= len(data) - at):
            if cost[end] + 1 < cost[at] and data[at:end] in index:
                cost[at], step[at] = cost[end] + 1, end
    if cost[0] == unreachable:
        raise VocabularyError(
            f"this vocabulary cannot encode {data[:60]!r}",
            action="use a tokenizer with byte tokens, or use text that it can encode",
        )
    ids: list[int] = []
    at = 0
    while at < len(data):
        ids.append(index[data[at : step[at]]])
        at = step[at]
    return ids
