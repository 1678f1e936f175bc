"""Random two-layer models over a few tokens, and the probabilities of all completions by enumeration.

Shares no code with `constrained.testing` or `constrained.sampling`.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence

import numpy as np
import torch

from constrained.models import Cache, LanguageModel
from constrained.sampling import Randomness
from constrained.vocabulary import Vocabulary

PIECES = (b"a", b"b", b"c", b"d", b"ab", b"ca")
PATTERN = "(a|b)(c(a|b)d?|d(ab)?)?"
TEXTS = [
    first + rest
    for first in "ab"
    for rest in ("", "ca", "cb", "cad", "cbd", "d", "dab")
]  # fmt: skip


class Rows(Cache):
    """The tokens of each row."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows
        self.trees: list[list[int]] = []

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.rows]

    def keep(self, rows: Sequence[int]) -> None:
        self.rows = [list(self.rows[row]) for row in rows]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        trees = [self.trees[row] for row in rows]
        self.keep(rows)
        for row, tree, path in zip(self.rows, trees, paths, strict=True):
            row += [tree[i] for i in path]

    def fork(self, rows: Sequence[int]) -> Cache:
        twin = copy.deepcopy(self)
        twin.keep(rows)
        return twin

    def join(self, other: Cache) -> None:
        assert isinstance(other, Rows)
        self.rows += other.rows


class TwoLayerModel(LanguageModel):
    """A random transformer of two layers, read anew for each new prefix. `reads` counts rows of forward passes."""

    no_trees = None

    def __init__(self, seed: int, pieces: Sequence[bytes] = PIECES) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        self.pieces, self.ends = pieces, [len(pieces), len(pieces) + 1]
        self.vocabulary = Vocabulary.from_bytes([*pieces, b"", b""], self.ends)
        config = LlamaConfig(
            vocab_size=len(pieces) + 2, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            initializer_range=0.3, max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._network = LlamaForCausalLM(config).eval()
        self._known: dict[tuple[int, ...], np.ndarray] = {}
        self.reads = 0

    def encode(self, prompt, *, chat=True) -> list[int]:
        return [self.ends[0]]

    def logits(self, ids: tuple[int, ...]) -> np.ndarray:
        if ids not in self._known:
            with torch.inference_mode():
                self._known[ids] = self._network(torch.tensor([ids])).logits[0, -1].double().numpy()
        return self._known[ids]

    def cache(self, rows: int) -> Cache:
        return Rows([[] for _ in range(rows)])

    def forward(self, tokens, cache):
        self.reads += len(tokens)
        for row, new in zip(cache.rows, tokens, strict=True):
            row += new
        return np.stack([self.logits(tuple(row)) for row in cache.rows])

    def forward_trees(self, tokens, parents, skip, cache):
        self.reads += len(tokens)
        cache.trees = [list(row) for row in tokens]
        found = []
        for row, new, before, first in zip(cache.rows, tokens, parents, skip, strict=True):
            paths: list[tuple[int, ...]] = []
            for token, parent in zip(new, before, strict=True):
                paths.append((*(paths[parent] if parent >= 0 else row), token))
            found.append(np.stack([self.logits(path) for path in paths[first:]]))
        return found

    def probabilities(self, completion: tuple[int, ...], temperature: float = 1.0) -> np.ndarray:
        """p of each id after a completion."""
        scaled = self.logits((self.ends[0], *completion)) / temperature
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


def fit(counts: dict[str, int], exact: dict[str, float]) -> float:
    """p-value of the G statistic (Wilson and Hilferty 1931 for the chi-square distribution)."""
    total = sum(counts.values())
    assert set(counts) <= set(exact)
    cells = sorted((p * total, counts.get(text, 0)) for text, p in exact.items())
    pooled = [(sum(e for e, _ in cells if e < 5), sum(n for e, n in cells if e < 5))]
    cells = [(e, n) for e, n in pooled + [cell for cell in cells if cell[0] >= 5] if e > 0]
    g = 2 * math.fsum(n * math.log(n / e) for e, n in cells if n)
    k = len(cells) - 1
    z = ((max(g, 1e-12) / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return 0.5 * math.erfc(z / math.sqrt(2))


def fisher(p_values: Sequence[float]) -> float:
    """Fisher's joint p-value: the chi-square tail with 2 n degrees of freedom in closed form."""
    half = -math.fsum(math.log(max(p, 1e-300)) for p in p_values)
    terms = [k * math.log(half) - math.lgamma(k + 1) - half for k in range(len(p_values))]
    return math.fsum(map(math.exp, terms))
