"""Encoding of bytes: by the tokenizer where it reproduces them, otherwise by the fewest tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from constrained.errors import VocabularyError
from constrained.vocabulary.tokenizer_info import Encoder

if TYPE_CHECKING:
    from constrained.vocabulary.vocabulary import Vocabulary

# What Python makes of bytes that are not UTF-8, and turns back into them.
_ESCAPE = "surrogateescape"
_NOT_UTF8 = re.compile("([\udc80-\udcff]+)")


def encode(vocabulary: Vocabulary, text: bytes | str, encoder: Encoder | None) -> list[int]:
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


def _encode_stretch(vocabulary: Vocabulary, stretch: str, encoder: Encoder | None) -> list[int]:
    data = stretch.encode("utf-8", _ESCAPE)
    if encoder is not None and not _NOT_UTF8.match(stretch):
        ids = encoder(stretch)
        # Used only if the ids decode to `data`, so that no quirk of a tokenizer can change it.
        if vocabulary.decode(ids) == data and all(vocabulary.tokens[token] for token in ids):
            return ids
    return encode_fewest(vocabulary, data)


def encode_fewest(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """The fewest tokens that spell `data`; ties are broken by the longest first token.

    Raises:
        VocabularyError: no tokens spell it.
    """
    index = vocabulary.ids_by_bytes
    lengths = vocabulary._token_lengths
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
