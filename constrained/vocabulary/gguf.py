"""The tokenizer inside a GGUF file, as llama-cpp-python opens it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

from constrained.errors import VocabularyError
from constrained.vocabulary.decoders import from_byte_level
from constrained.vocabulary.mistral import SentencePieceEncoder
from constrained.vocabulary.tokenizer_info import TokenizerInfo


@dataclass
class GgufProcessor:
    """llama.cpp's tokenisation of a text. A pickle has the path of the file, whose vocabulary is then opened again."""

    path: str
    llama: Any = field(default=None, compare=False)

    def encode(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        """Ids of a text.

        Args:
            text: without lone surrogates.
            begin: whether the tokens are added that the file puts around a text.
            special: whether the names of special tokens in the text become these tokens.
        """
        if self.llama is None:
            from llama_cpp import Llama

            self.llama = Llama(self.path, vocab_only=True, verbose=False)
        data = text.encode()
        return list(self.llama.tokenize(data, add_bos=begin, special=special)) if data or begin else []

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "llama": None}


def read_llama(llama: Any) -> TokenizerInfo:
    """The tokenizer of a `llama_cpp.Llama`.

    Control, unknown and unused tokens are never text. What ends a sequence is what llama.cpp ends one with: the tokens of the
    file's metadata and those that it knows by their names.

    Raises:
        VocabularyError: the file has no tokenizer, or one that does not keep spaces (WordPiece).
    """
    import llama_cpp as api

    vocab = api.llama_model_get_vocab(llama.model)
    kind = api.llama_vocab_type(vocab)
    if kind in (api.LLAMA_VOCAB_TYPE_NONE, api.LLAMA_VOCAB_TYPE_WPM):
        reason = (
            "no tokenizer"
            if kind == api.LLAMA_VOCAB_TYPE_NONE
            else "a WordPiece tokenizer, which drops spaces"
        )
        raise VocabularyError(
            f"{llama.model_path} has {reason}", action="use a file of a model that writes text"
        )
    byte_level = kind == api.LLAMA_VOCAB_TYPE_BPE
    no_text = api.LLAMA_TOKEN_ATTR_CONTROL | api.LLAMA_TOKEN_ATTR_UNKNOWN | api.LLAMA_TOKEN_ATTR_UNUSED
    tokens: list[bytes] = []
    special: dict[str, int] = {}
    added = set()
    for token in range(api.llama_vocab_n_tokens(vocab)):
        traits = api.llama_vocab_get_attr(vocab, token)
        if traits & no_text:
            if traits & api.LLAMA_TOKEN_ATTR_CONTROL:
                special[_name(api, vocab, token).decode(errors="replace")] = token
            tokens.append(b"")
        elif byte_level and traits & api.LLAMA_TOKEN_ATTR_NORMAL:
            tokens.append(from_byte_level(_name(api, vocab, token).decode()))
        else:
            tokens.append(_piece(api, vocab, token))
        if traits & (no_text | api.LLAMA_TOKEN_ATTR_USER_DEFINED):
            added.add(token)
    processor = GgufProcessor(llama.model_path, llama)
    adds_space = b"".join(tokens[i] for i in processor.encode("a"))[:1] == b" "
    return TokenizerInfo(
        tokens,
        SentencePieceEncoder(processor, tuple(processor.encode("\n")) if adds_space else ()),
        decoder=lambda ids: llama.detokenize(ids).decode(errors="replace"),
        normalize=lambda text: {text.encode()},
        eos_ids=tuple(token for token in range(len(tokens)) if api.llama_vocab_is_eog(vocab, token)),
        special=special,
        added=frozenset(added),
        chat_template=llama.metadata.get("tokenizer.chat_template"),
    )


def _name(api: Any, vocab: Any, token: int) -> bytes:
    """What the file calls a token."""
    name: bytes = api.llama_vocab_get_text(vocab, token)
    return name


def _piece(api: Any, vocab: Any, token: int) -> bytes:
    """The bytes that llama.cpp writes for a token in the middle of a text."""
    buffer = ctypes.create_string_buffer(64)
    size = api.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    if size < 0:
        buffer = ctypes.create_string_buffer(-size)
        size = api.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    return buffer.raw[:size]
