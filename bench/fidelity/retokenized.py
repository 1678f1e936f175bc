"""A model's distribution in the tokens of another vocabulary, so that one distribution is measured with several sizes.

A model of tokens t gives every byte string s a probability to come next: with F(s | u) the probability that what
follows u begins with s,

    F(s | u) = sum of p(t | u) over tokens t that begin with s
             + sum of p(t | u) F(rest of s after t | u t) over tokens t that s begins with.

Its text, cut into pieces of another vocabulary by longest match, begins with piece y with probability F(y | u) less the
F of the shortest longer pieces that begin with y. This is the distribution here. One thing is simplified: behind the first token
of a piece the model is asked after a prompt and that token alone, not after everything said. So F is linear in p, and
a table made once tells every next piece out of one row of the model; what F describes is still a distribution over bytes, and its
pieces sum to 1. After each piece the whole text is read again, and the first token of the next piece has the model's
own probability.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from constrained.models import LanguageModel, Prompt
from constrained.testing.models import FunctionModel
from constrained.vocabulary import Vocabulary

_BATCH = 128


class ByteDistribution:
    """What a model says of byte strings, one row at a time.

    Attributes:
        model: the model.
        pairs: row t: the probabilities of what comes after the prompt and token t, float64 [V, V].
    """

    def __init__(self, model: LanguageModel, prompt: Prompt) -> None:
        """Asks the model what follows each of its tokens.

        Args:
            model: reads prompts.
            prompt: prompt before the second and later tokens of a piece.
        """
        self.model = model
        self.token_probabilities = model.vocabulary.tokens
        self._ids = {piece: i for i, piece in enumerate(self.token_probabilities) if piece}
        self._sorted = sorted(self._ids)
        self._order = np.array([self._ids[piece] for piece in self._sorted])
        self._longest = max(map(len, self._sorted))
        read = model.cache(1)
        model.forward([model.encode(prompt)], read)
        size = model.vocabulary.size
        rows = []
        for first in range(0, size, _BATCH):
            ids = range(first, min(first + _BATCH, size))
            rows.append(softmax_rows(model.forward([[i] for i in ids], read.fork([0] * len(ids)))))
        self.pairs: NDArray[np.float64] = np.concatenate(rows)
        self._known: dict[tuple[int, bytes], float] = {}

    def ways(self, piece: bytes) -> tuple[list[int], list[float]]:
        """F of a piece as a linear function of the model's row: tokens, and what each is multiplied by."""
        self._learn(piece)
        covering = self._covering(piece).tolist()
        tokens, factors = list(covering), [1.0] * len(covering)
        for end in range(1, len(piece)):
            token = self._ids.get(piece[:end])
            if token is not None:
                tokens.append(token)
                factors.append(self._known[token, piece[end:]])
        return tokens, factors

    def _covering(self, text: bytes) -> NDArray[np.intp]:
        """Tokens that begin with a text, or are it."""
        low = bisect_left(self._sorted, text)
        high = low
        while high < len(self._sorted) and self._sorted[high].startswith(text):
            high += 1
        return self._order[low:high]

    def _learn(self, piece: bytes) -> None:
        """Finds F(rest | token) for all ways to go through a piece, the shortest rests first."""
        for middle in range(len(piece) - 1, 0, -1):
            rest = piece[middle:]
            before = [
                token
                for begin in range(max(0, middle - self._longest), middle)
                if (token := self._ids.get(piece[begin:middle])) is not None
                and (token, rest) not in self._known
            ]
            if not before:
                continue
            found = self.pairs[np.ix_(np.array(before), self._covering(rest))].sum(axis=1)
            for end in range(middle + 1, len(piece)):
                token = self._ids.get(piece[middle:end])
                if token is not None:
                    found += self.pairs[before, token] * self._known[token, piece[end:]]
            self._known.update(zip(((token, rest) for token in before), found.tolist(), strict=True))


class RetokenizedModel(FunctionModel):
    """A model over the tokens of another vocabulary. Prompts are ids of the original model."""

    def __init__(self, bytes_distribution: ByteDistribution, vocabulary: Vocabulary) -> None:
        """Makes the table.

        Args:
            bytes_distribution: of the model.
            vocabulary: has every single byte, and one end of sequence.
        """
        self.bytes_distribution = bytes_distribution
        self.vocabulary = vocabulary
        self.context = None
        (self._eos,) = vocabulary.eos_ids
        ids: dict[bytes, int] = {}
        for i, piece in enumerate(vocabulary.tokens):
            if piece:
                ids.setdefault(piece, i)
        tokens, pieces, factors = [], [], []
        self._shorter = np.full(vocabulary.size, -1)
        for piece, i in ids.items():
            ways, shares = bytes_distribution.ways(piece)
            tokens += ways
            factors += shares
            pieces += [i] * len(ways)
            self._shorter[i] = next(
                (ids[piece[:n]] for n in range(len(piece) - 1, 0, -1) if piece[:n] in ids), -1
            )
        self._tokens, self._pieces = np.array(tokens), np.array(pieces)
        self._factors = np.array(factors)

    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """Encodes with the original model."""
        return self.bytes_distribution.model.encode(prompt, chat=chat)

    def logits(self, prompt: list[int], completion: list[int]) -> NDArray[np.float64]:
        """Log-probabilities of the next piece, float64 [vocabulary.size]."""
        model = self.bytes_distribution.model
        text = self.vocabulary.decode(completion)
        read = [*prompt, *model.vocabulary.encode(text)]
        with np.errstate(divide="ignore"):
            logs: NDArray[np.float64] = np.log(
                self.token_probabilities(softmax_rows(model.forward([read], model.cache(1)))[0])
            )
        return logs

    def token_probabilities(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """The distribution of the next piece, computed from the model's distribution of its next token."""
        size = self.vocabulary.size
        begins = np.bincount(self._pieces, p[self._tokens] * self._factors, size)
        inner = np.flatnonzero(self._shorter >= 0)
        longer = np.bincount(self._shorter[inner], begins[inner], size)
        distribution: NDArray[np.float64] = np.maximum(begins - longer, 0.0)
        distribution[self._eos] = p[list(self.bytes_distribution.model.vocabulary.eos_ids)].sum()
        distribution /= distribution.sum()
        return distribution


def softmax_rows(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Rows of probabilities, float64."""
    wide = logits.astype(np.float64)
    p: NDArray[np.float64] = np.exp(wide - wide.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p


def vocabulary_prefix(tokens: Sequence[bytes], size: int) -> Vocabulary:
    """The first tokens of a list, which are those it merged first, and an end of sequence: `size` ids at most."""
    text = [piece for piece in tokens if piece][: size - 1]
    return Vocabulary.from_bytes([*text, b""], [len(text)])
