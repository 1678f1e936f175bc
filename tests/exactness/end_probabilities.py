"""Random two-layer models over a few tokens, and the probabilities of all completions by enumeration.

Shares no code with `constrained.testing` or `constrained.sampling`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import torch

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

    def probabilities(self, completion: tuple[int, ...]) -> np.ndarray:
        """p of each id after a completion."""
        logits = self.logits(completion)
        p = np.exp(logits - logits.max())
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
    """P of all completions of a language within a limit.

    Attributes:
        p: sequence of tokens -> the model's probability of it and an end.
        certain: the same where an end that must come, and one at the limit, has probability 1.
    """

    def __init__(self, model: TwoLayerModel, texts: Sequence[str] = TEXTS, limit: int = 99) -> None:
        self.texts = spellings(model.pieces, texts, limit)
        prefixes = {ids[:n] for ids in self.texts for n in range(len(ids) + 1)}
        self.p, self.certain = {}, {}
        for ids in self.texts:
            p = certain = 1.0
            for n in range(len(ids) + 1):
                row = model.probabilities(ids[:n])
                end = float(row[model.ends].sum())
                follow = [token for token in range(len(model.pieces)) if (*ids[:n], token) in prefixes]
                step = end if n == len(ids) else float(row[ids[n]])
                p *= step
                certain *= step if follow or n < len(ids) else 1.0
            self.p[ids], self.certain[ids] = p, certain
        self.mass = math.fsum(self.p.values())
