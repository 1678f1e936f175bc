"""What a model with other tokens reads and predicts, in the tokens of a vocabulary.

A token stands for the token with the same bytes; one that the other vocabulary lacks, for the longest token with which it begins. So a draft
model of another family can propose tokens (Timor et al. 2025, "Accelerating LLM inference with lossless speculative decoding
algorithms for heterogeneous vocabularies", section 4, has the first half of it).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from constrained.errors import VocabularyError
from constrained.vocabulary.vocabulary import Vocabulary


class TokenMap:
    """Translates the ids of one vocabulary into those of another, and logits back.

    Attributes:
        same: both have the same tokens, but for ids at the end that are never text: nothing is translated.
    """

    def __init__(self, vocabulary: Vocabulary, other: Vocabulary) -> None:
        """Compares two vocabularies: some 0.1 s for large ones that differ.

        Args:
            vocabulary: in whose tokens texts are given, and logits wanted.
            other: of the model that reads and predicts.

        Raises:
            VocabularyError: the other one has no tokens for some bytes of the first.
        """
        self._vocabulary, self._other = vocabulary, other
        one, two, common = vocabulary.tokens, other.tokens, min(vocabulary.size, other.size) + 1
        self.same = one.blob == two.blob and np.array_equal(one.offsets[:common], two.offsets[:common])
        if self.same:
            return
        ids = other.ids_by_bytes
        missing = sorted(byte for byte in set(one.blob) if bytes([byte]) not in ids)
        if missing:
            raise VocabularyError(
                f"the other vocabulary has no token for the byte {missing[0]:#04x} alone",
                action="use a model whose tokens can write every text",
            )
        self._special = {
            token: other.special[name] for name, token in vocabulary.special.items() if name in other.special
        }
        self._source = np.zeros(vocabulary.size, dtype=np.intp)
        is_known, is_begun = np.zeros((2, vocabulary.size), dtype=bool)
        for token, text in enumerate(vocabulary.tokens):
            length = next((size for size in range(len(text), 0, -1) if text[:size] in ids), 0)
            if length:
                self._source[token] = ids[text[:length]]
                (is_known if length == len(text) else is_begun)[token] = True
        # All tokens that begin with one token share its probability.
        shared = np.bincount(self._source[is_begun], minlength=other.size)[self._source] + 1
        self._penalty = np.where(is_known, 0.0, np.where(is_begun, np.log(shared), np.inf)).astype(np.float32)
        ends = dict.fromkeys(vocabulary.eos_ids, other.eos_ids[0])
        for token, own in {**ends, **self._special}.items():
            self._source[token], self._penalty[token] = own, 0.0

    def ids(self, tokens: Sequence[int]) -> list[int]:
        """The ids with which the other model reads some tokens: text as its tokenizer writes it, special tokens by their names.

        Special tokens that it lacks, and ids that are never text, are left out.
        """
        if self.same:
            return list(tokens)
        found: list[int] = []
        for special, run in groupby(tokens, self._special.get):
            if special is None:
                found += self._other.encode(self._vocabulary.decode(run))
            else:
                found += [special for _ in run]
        return found

    def logits(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the other model's logits, float32 [V'], say of the tokens of the vocabulary, float32 [V]."""
        if not self.same:
            return row[self._source] - self._penalty
        missing = self._vocabulary.size - len(row)
        return np.pad(row, (0, max(0, missing)), constant_values=-np.inf)[: self._vocabulary.size]
