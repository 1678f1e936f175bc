"""What the readers of tokenizers hand over to `Vocabulary`: one plain record, whatever the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Encoder = Callable[[str], list[int]]
"""Canonical ids of a text in the middle of a generation: no special tokens, no space put in front. Picklable."""

SPACE_MARK = "\u2581"
"""The character SentencePiece writes for a space."""


@dataclass(frozen=True, slots=True)
class TokenizerInfo:
    """A tokenizer, read.

    Attributes:
        tokens: bytes of each id; ``b""`` for an id that is never text (special, control, unknown, a hole).
        encoder: canonical tokenisation of text.
        decoder: the library's own ids -> text, as a second opinion on `tokens`; None if it has none.
        normalize: the texts that the tokenizer may take a text for (normal forms, spaces collapsed), as UTF-8.
        eos_ids: end-of-sequence ids the tokenizer itself names.
        special: content -> id of the special tokens, to find ends of turns and to name them in messages.
        added: ids of added tokens, which libraries treat in ways of their own.
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
