"""`llama_vocabulary`: the vocabulary of a `llama_cpp.Llama`, read once for each."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from constrained.vocabulary.vocabulary import Vocabulary

_vocabularies: WeakKeyDictionary[Any, Vocabulary] = WeakKeyDictionary()


def llama_vocabulary(llama: Any) -> Vocabulary:
    """The vocabulary of a `llama_cpp.Llama`.

    Raises:
        VocabularyError: see `constrained.vocabulary.gguf.read_llama`.
    """
    known = _vocabularies.get(llama)
    return known or _vocabularies.setdefault(llama, Vocabulary.from_tokenizer(llama))
