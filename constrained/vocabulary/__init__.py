"""Vocabularies: the exact bytes of every token id of a language model.

    Vocabulary.from_tokenizer(tokenizer)     any Hugging Face fast tokenizer, mistral-common, SentencePiece
    Vocabulary.from_bytes(tokens, eos_ids)   an explicit list

The bytes of a token are what it adds to the text **in the middle of a generation**; the text an automaton sees
is the concatenation of these. So a SentencePiece token ``▁Hello`` is always ``b" Hello"``, also when it comes
first after the prompt: a decoder that drops the space in front of a whole text is not used here.
Must not know: grammars, automata, torch.
"""

from __future__ import annotations

from constrained.vocabulary.special_tokens import encode_with_special
from constrained.vocabulary.vocabulary import TokenBytes, Vocabulary

__all__ = ["TokenBytes", "Vocabulary", "encode_with_special"]
