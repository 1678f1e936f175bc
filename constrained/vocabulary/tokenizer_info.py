"""The result of reading a tokenizer, independent of the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Encoder = Callable[[str], list[int]]
"""Canonical ids of a text in the middle of a generation: no special tokens, no space in front. Picklable."""

SPACE_MARK = "\u2581"
"""The character SentencePiece writes for a space."""


@dataclass(frozen=True, slots=True)
class TokenizerInfo:
    """The contents of a tokenizer.

    Attributes:
        tokens: bytes of each id; ``b""`` for an id that is never text (special, control, unknown, a hole).
        encoder: canonical tokenisation of text.
        decoder: the library's own ids -> text, to verify `tokens`; None if there is none.
        normalize: the texts that the tokenizer may change a text into (normal forms, collapsed spaces), as UTF-8.
        eos_ids: end-of-sequence ids the tokenizer itself names.
        special: content -> id of the special tokens, for end-of-turn tokens and error messages.
        added: ids of added tokens, which libraries treat specially.
        chat_template: source of the chat template, when the tokenizer carries one.
    """

    tokens: Sequence[bytes]
    encoder: Encoder
    decoder: Callable[[list[int]], str] | None
    normalize: Callable[[str], set[bytes]]
    eos_ids: tuple[int, ...] = ()
    special: Mapping[str, int] = field(default_factory=dict)
    added: frozenset[int] = frozenset()
    chat_template: str | None = None
