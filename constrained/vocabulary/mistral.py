"""Tekken and SentencePiece, as mistral-common and sentencepiece load them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from constrained.vocabulary.tokenizer_info import SPACE_MARK, TokenizerInfo


@dataclass(frozen=True, slots=True)
class TekkenEncoder:
    """Tekken's own tokenisation, without the special tokens around a sequence."""

    tokenizer: Any

    def __call__(self, text: str) -> list[int]:
        """Ids of a text, without special tokens."""
        return list(self.tokenizer.encode(text, bos=False, eos=False))


@dataclass(frozen=True, slots=True)
class SentencePieceEncoder:
    """SentencePiece's tokenisation in the middle of a text.

    A model may put a space in front of every text. To get the ids without it, the text is encoded after a line
    break, which no piece joins to what follows, and the ids of the line break are cut off.
    """

    processor: Any
    anchor: tuple[int, ...]

    def __call__(self, text: str) -> list[int]:
        """Ids of a text, without special tokens."""
        if not self.anchor or (text.startswith(" ") and text != " "):  # nothing is put in front of nothing
            return list(self.processor.encode(text[1:] if self.anchor else text))
        ids = list(self.processor.encode("\n" + text))
        return ids[len(self.anchor) :] if tuple(ids[: len(self.anchor)]) == self.anchor else []


def read_tekken(tokenizer: Any) -> TokenizerInfo:
    """A mistral-common `Tekkenizer`: special ids first, then byte-level tokens that it lists as bytes."""
    special = set(tokenizer.special_ids)
    tokens = [b"" if i in special else tokenizer.id_to_byte_piece(i) for i in range(tokenizer.n_words)]
    names = {tokenizer.id_to_piece(i): i for i in sorted(special)}
    return TokenizerInfo(
        tokens,
        TekkenEncoder(tokenizer),
        decoder=tokenizer.decode,
        normalize=lambda text: {text.encode()},
        eos_ids=(tokenizer.eos_id,),
        special=names,
    )


def read_mistral_sentencepiece(tokenizer: Any) -> TokenizerInfo:
    """A mistral-common `SentencePieceTokenizer`, read from its own file."""
    from sentencepiece import SentencePieceProcessor

    return read_sentencepiece(SentencePieceProcessor(model_file=str(tokenizer.file_path)))


def read_sentencepiece(processor: Any) -> TokenizerInfo:
    """A `SentencePieceProcessor`: pieces with U+2581 for a space, and perhaps one piece per byte."""

    def token(i: int) -> bytes:
        if processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i):
            return b""
        piece: str = processor.id_to_piece(i)
        if processor.is_byte(i):
            return bytes([int(piece[3:5], 16)])
        return piece.replace(SPACE_MARK, " ").encode()

    tokens = [token(i) for i in range(processor.get_piece_size())]
    adds_space = b"".join(tokens[i] for i in processor.encode("a"))[:1] == b" "
    anchor = tuple(processor.encode("\n")) if adds_space else ()
    special = {processor.id_to_piece(i): i for i in range(len(tokens)) if processor.is_control(i)}
    eos = processor.eos_id()

    def normalize(text: str) -> set[bytes]:
        return {processor.normalize(text).replace(SPACE_MARK, " ").encode()}

    return TokenizerInfo(
        tokens,
        SentencePieceEncoder(processor, anchor),
        decoder=processor.decode,
        normalize=normalize,
        eos_ids=(eos,) if eos >= 0 else (),
        special=special,
    )
