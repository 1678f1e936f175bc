"""The tokenizer inside a GGUF file, as llama-cpp-python opens it."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any
from weakref import ref

from constrained.errors import VocabularyError
from constrained.vocabulary.decoders import from_byte_level
from constrained.vocabulary.mistral import SentencePieceEncoder
from constrained.vocabulary.tokenizer_info import TokenizerInfo


class GgufProcessor:
    """llama.cpp's tokenisation of a text.

    It keeps no weights alive: once the `llama_cpp.Llama` is gone, and in another process, it opens the vocabulary of the file.
    """

    def __init__(self, llama: Any) -> None:
        """Of a `llama_cpp.Llama`."""
        self.path: str = llama.model_path
        self._llama: Callable[[], Any] | None = ref(llama)
        self._own: Any = None

    def encode(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        """Ids of a text.

        Args:
            text: without lone surrogates.
            begin: whether the tokens are added that the file puts around a text.
            special: whether the names of special tokens in the text become these tokens.

        Raises:
            VocabularyError: the model is gone, and its file cannot be opened again.
        """
        import llama_cpp as api

        data = text.encode()
        if not data and not begin:
            return []
        llama = self._llama and self._llama()
        if llama is None and self._own is None:
            self._own = _open_vocabulary(api, self.path)
        vocab = api.llama_model_get_vocab(self._own if llama is None else llama.model)
        room = len(data) + 8
        while True:
            ids = (api.llama_token * room)()
            count: int = api.llama_tokenize(vocab, data, len(data), ids, room, begin, special)
            if count >= 0:
                return list(ids[:count])
            room = -count

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_llama": None, "_own": None}


def _open_vocabulary(api: Any, path: str) -> Any:
    """The vocabulary of a file: a model of llama.cpp without weights, and without a context, about which it would warn."""
    log = logging.getLogger("llama-cpp-python")
    log.setLevel(log.level or logging.ERROR)
    api.llama_backend_init()
    settings = api.llama_model_default_params()
    settings.vocab_only = True
    model = api.llama_model_load_from_file(path.encode(), settings)
    if not model:
        raise VocabularyError(
            f"{path} cannot be opened again", action="leave the file where it was loaded from"
        )
    return model


def read_llama(llama: Any) -> TokenizerInfo:
    """The tokenizer of a `llama_cpp.Llama`.

    Control, unknown and unused tokens are never text. What ends a sequence is, of the tokens with which llama.cpp ends one, those
    that the file's metadata names and those that its chat template writes; without a template all of them: it knows some by
    their names, which mean something else in some models.

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
    processor = GgufProcessor(llama)
    adds_space = b"".join(tokens[i] for i in processor.encode("a"))[:1] == b" "
    return TokenizerInfo(
        tokens,
        SentencePieceEncoder(processor, tuple(processor.encode("\n")) if adds_space else ()),
        # Not `llama.detokenize`, which loses tokens of more than 32 bytes.
        decoder=lambda ids: b"".join(_piece(api, vocab, i) for i in ids).decode(errors="replace"),
        normalize=lambda text: {text.encode()},
        eos_ids=_ends(api, vocab, llama.metadata),
        special=special,
        added=frozenset(added),
        chat_template=llama.metadata.get("tokenizer.chat_template"),
    )


def _ends(api: Any, vocab: Any, metadata: dict[str, str]) -> tuple[int, ...]:
    """See `read_llama`."""
    ends = [token for token in range(api.llama_vocab_n_tokens(vocab)) if api.llama_vocab_is_eog(vocab, token)]
    template = metadata.get("tokenizer.chat_template")
    if template is None:
        return tuple(ends)
    named = {metadata.get(f"tokenizer.ggml.{end}_token_id") for end in ("eos", "eot", "eom")}
    meant = [t for t in ends if str(t) in named or _name(api, vocab, t).decode(errors="replace") in template]
    return tuple(meant or ends)


def added_tokens(llama: Any) -> dict[int, tuple[str, bool]]:
    """Tokens of a `llama_cpp.Llama` that a text names: their names, and whether they are special (never text)."""
    import llama_cpp as api

    vocab = api.llama_model_get_vocab(llama.model)
    traits = {
        token: api.llama_vocab_get_attr(vocab, token) for token in range(api.llama_vocab_n_tokens(vocab))
    }
    special = api.LLAMA_TOKEN_ATTR_CONTROL | api.LLAMA_TOKEN_ATTR_UNKNOWN
    named = special | api.LLAMA_TOKEN_ATTR_USER_DEFINED
    return {
        token: (_name(api, vocab, token).decode(errors="replace"), bool(own & special))
        for token, own in traits.items()
        if own & named
    }


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
