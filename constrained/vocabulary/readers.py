"""Choice of the reader for a tokenizer, by its attributes rather than its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from constrained.errors import VocabularyError
from constrained.vocabulary import gguf, hugging_face, mistral
from constrained.vocabulary.tokenizer_info import TokenizerInfo
from constrained.vocabulary.verify import verify_tokenizer

# Attributes that only one kind of tokenizer has, and its reader; the first match is used.
_READERS: tuple[tuple[tuple[str, ...], Callable[[Any], TokenizerInfo]], ...] = (
    (("backend_tokenizer", "all_special_ids"), hugging_face.read_transformers),
    (("get_added_tokens_decoder", "model"), hugging_face.read_tokenizers),
    (("id_to_byte_piece", "special_ids"), mistral.read_tekken),
    (("file_path", "n_words", "is_special"), mistral.read_mistral_sentencepiece),
    (("piece_to_id", "is_byte"), mistral.read_sentencepiece),
    (("tokenizer_", "model_params", "model_path"), gguf.read_llama),
)
# Attributes in which mistral-common, and processors of transformers, hold the tokenizer.
_WRAPPERS = ("instruct_tokenizer", "tokenizer")


def read_tokenizer(tokenizer: Any) -> TokenizerInfo:
    """Read a tokenizer of any supported kind and check that its bytes are exact.

    Raises:
        VocabularyError: no reader understands it, it has no exact bytes, or the check failed.
    """
    inner = tokenizer
    while inner is not None:
        for attributes, reader in _READERS:
            if all(hasattr(inner, name) for name in attributes):
                info = reader(inner)
                verify_tokenizer(info)
                return info
        inner = next((getattr(inner, name) for name in _WRAPPERS if hasattr(inner, name)), None)
    raise VocabularyError(
        f"no reader for a tokenizer of type {type(tokenizer).__name__}",
        action="load it with transformers.AutoTokenizer (a fast tokenizer), tokenizers.Tokenizer or mistral-common, "
        "or list its bytes with Vocabulary.from_bytes",
    )
