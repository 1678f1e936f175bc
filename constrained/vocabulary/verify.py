"""Verification that the token bytes of a tokenizer are exact, on samples, when the tokenizer is read.

In both directions. Text -> ids: the bytes of the ids are the text again, up to what the tokenizer's normaliser does to
it and one space in front. Ids -> text: after another token, a token adds the text that the tokenizer's decoder adds.
The tests verify every token of whole vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterator

from constrained.errors import VocabularyError
from constrained.vocabulary.tokenizer_info import TokenizerInfo

ROUNDTRIP_PROBES = (
    "Hello, world! It's",
    " one  two   three ",
    "line\nbreak\r\n\ttab",
    '{"name": "Zoë", "list": [1, 23, -4.5e6, true, null]}',
    "0123456789",
    "naïve café Ελληνικά русский",
    "日本語のテキスト 한국어",
    "😀 👩‍👩‍👧",
)
_SAMPLES = 256
_SHOWN = 3


def verify_tokenizer(info: TokenizerInfo) -> None:
    """Compare samples in both directions.

    Raises:
        VocabularyError: bytes and tokenizer disagree; shows where.
    """
    problems = [*_texts_that_change(info), *_tokens_that_differ(info)]
    if problems:
        raise VocabularyError(
            f"the bytes of this tokenizer's tokens cannot be determined exactly: {len(problems)} samples disagree"
            + "".join(f"\n  {problem}" for problem in problems[:_SHOWN]),
            action="use a model with a byte-level or SentencePiece tokenizer, or list the bytes with "
            "Vocabulary.from_bytes",
        )


def _samples(info: TokenizerInfo) -> Iterator[tuple[int, str]]:
    """Ids spread over the vocabulary that are whole characters, with their text."""
    for i in range(0, len(info.tokens), max(1, len(info.tokens) // _SAMPLES)):
        if i not in info.added and info.tokens[i]:
            try:
                yield i, info.tokens[i].decode()
            except UnicodeDecodeError:
                continue


def _texts_that_change(info: TokenizerInfo) -> Iterator[str]:
    known: set[bytes] | None = None
    for text in (*ROUNDTRIP_PROBES, *(text for _, text in _samples(info))):
        ids = info.encoder(text)
        spelled = b"".join(info.tokens[i] for i in ids)
        wanted = {text.encode()} | info.normalize(text)
        if spelled in wanted or spelled.removeprefix(b" ") in wanted:
            continue
        # A vocabulary without a character cannot reproduce it.
        known = known or set(info.tokens)
        if any(_can_spell(known, candidate.decode()) for candidate in wanted):
            yield f"text {text!r} becomes {spelled!r}, the ids {ids[:8]}"


def _can_spell(known: set[bytes], text: str) -> bool:
    return all(
        char.encode() in known or all(bytes([byte]) in known for byte in char.encode()) for char in set(text)
    )


def _tokens_that_differ(info: TokenizerInfo) -> Iterator[str]:
    tokens = info.tokens
    before = next((i for i, token in enumerate(tokens) if token.isalnum() and i not in info.added), None)
    if info.decoder is None or before is None:
        return
    for i, text in _samples(info):
        decoded = info.decoder([before, i])
        if decoded != tokens[before].decode() + text:
            yield f"token {i}, read as {text!r}, is decoded as {decoded!r} behind {tokens[before]!r}"
