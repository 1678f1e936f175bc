"""Random two-layer models over a few tokens, and the probabilities of all completions by enumeration.

Shares no code with `constrained.testing` or `constrained.sampling`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import torch

from constrained.sampling import Randomness
from tests.exactness.prefix_model import PrefixModel

PIECES = (b"a", b"b", b"c", b"d", b"ab", b"ca")
PATTERN = "(a|b)(c(a|b)d?|d(ab)?)?"
TEXTS = [
    first + rest
    for first in "ab"
    for rest in ("", "ca", "cb", "cad", "cbd", "d", "dab")
]  # fmt: skip


class TwoLayerModel(PrefixModel):
    """A random transformer of two layers with two ends."""

    def __init__(self, seed: int, pieces: Sequence[bytes] = PIECES) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        super().__init__(pieces, ends=2)
        config = LlamaConfig(
            vocab_size=len(pieces) + 2, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            initializer_range=0.3, max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._network = LlamaForCausalLM(config).eval()
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def logits(self, completion: tuple[int, ...]) -> np.ndarray:
        if completion not in self._known:
            ids = torch.tensor([(self.ends[0], *completion)])
            with torch.inference_mode():
                self._known[completion] = self._network(ids).logits[0, -1].double().numpy()
        return self._known[completion]

    def probabilities(self, completion: tuple[int, ...], temperature: float = 1.0) -> np.ndarray:
        """p of each id after a completion."""
        scaled = self.logits(completion) / temperature
        p = np.exp(scaled - scaled.max())
        return p / p.sum()


def spellings(pieces: Sequence[bytes], texts: Sequence[str], limit: int) -> dict[tuple[int, ...], str]:
    """All sequences of at most `limit` tokens that spell a text."""
    found: dict[tuple[int, ...], str] = {}

    def go(ids: tuple[int, ...], rest: bytes, text: str) -> None:
        if not rest:
            found[ids] = text
        elif len(ids) < limit:
            for token, piece in enumerate(pieces):
                if rest.startswith(piece):
                    go((*ids, token), rest[len(piece) :], text)

    for text in texts:
        assert re.fullmatch(PATTERN, text) or texts is not TEXTS
        go((), text.encode(), text)
    return found


class Enumeration:
    """P and Q of all completions of a language within a limit.

    Attributes:
        p: sequence of tokens -> the model's probability of it and an end.
        certain: the same where an end that must come, and one at the limit, has probability 1.
        q: sequence of tokens -> its probability under local masking.
    """

    def __init__(
        self, model: TwoLayerModel, texts: Sequence[str] = TEXTS, limit: int = 99, temperature: float = 1.0
    ) -> None:
        self.texts = spellings(model.pieces, texts, limit)
        prefixes = {ids[:n] for ids in self.texts for n in range(len(ids) + 1)}
        self.p, self.q, self.certain = {}, {}, {}
        for ids in self.texts:
            p = q = certain = 1.0
            for n in range(len(ids) + 1):
                row = model.probabilities(ids[:n], temperature)
                end = float(row[model.ends].sum())
                follow = [token for token in range(len(model.pieces)) if (*ids[:n], token) in prefixes]
                allowed = float(row[follow].sum()) + (end if ids[:n] in self.texts else 0.0)
                step = end if n == len(ids) else float(row[ids[n]])
                p *= step
                q *= step / allowed
                certain *= step if follow or n < len(ids) else 1.0
            self.p[ids], self.q[ids], self.certain[ids] = p, q, certain
        self.mass = math.fsum(self.p.values())

    def conditional(self, of: dict[tuple[int, ...], float]) -> dict[str, float]:
        """Text -> its share."""
        total, found = math.fsum(of.values()), dict.fromkeys(self.texts.values(), 0.0)
        for ids, p in of.items():
            found[self.texts[ids]] += p / total
        return found


class Odometer(Randomness):
    """Goes through all outcomes of all choices; `chance` is the probability of those made so far."""

    def __init__(self) -> None:
        self.digits: list[int] = []
        self.bases: list[int] = []
        self.rewind()

    def rewind(self) -> None:
        self.place, self.chance = 0, 1.0

    def pick(self, scores, ids, position_id, purpose=0) -> int:
        p = np.exp(np.asarray(scores) - np.max(scores))
        able = [i for i in range(len(p)) if p[i] > 0]
        if self.place == len(self.digits):
            self.digits.append(0)
            self.bases.append(len(able))
        index = able[self.digits[self.place]]
        self.place += 1
        self.chance *= float(p[index] / p.sum())
        return index

    def order(self, scores, ids, position_id):
        left = [i for i in range(len(scores)) if scores[i] > -np.inf]
        while left:
            i = self.pick(np.asarray(scores)[left], np.asarray(ids)[left], position_id)
            yield left.pop(i)

    def uniform(self, count, position_id, purpose):
        raise NotImplementedError

    def turn(self) -> bool:
        """To the next outcome; False after the last."""
        while self.digits and self.digits[-1] + 1 == self.bases[-1]:
            self.digits.pop()
            self.bases.pop()
        if self.digits:
            self.digits[-1] += 1
        self.rewind()
        return bool(self.digits)
