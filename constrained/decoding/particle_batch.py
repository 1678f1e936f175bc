"""Particles of one prompt, decoded together over a shared KV cache.

Particles with equal tokens share one row of the cache and of the forward pass; the row is copied when their tokens
differ. The prompt is read once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from constrained.decoding.sequence import DecodingCost, DecodingParams, TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.step import DecodingStep
from constrained.models import Cache, LanguageModel
from constrained.sampling import Distribution, Draw, Position, Randomness, TokenSampler


class CachedParticleBatch:
    """The particle batch that samplers draw from, over a model with a KV cache.

    Attributes:
        cost: work done so far.
        key: fingerprint of model, prompt, constraint, logits warper and token limit.
    """

    def __init__(
        self,
        model: LanguageModel,
        rules: DecodingParams,
        prompt: Sequence[int],
        limit: int,
        chance: Callable[[int], Randomness],
        drafting: DraftScheduler | None = None,
    ) -> None:
        """Creates an empty batch; the first `forward` reads the prompt.

        Args:
            model: the language model.
            rules: parameters that all particles share.
            prompt: token ids, at least one.
            limit: token limit of a completion.
            chance: the random numbers of an attempt, by its number.
            drafting: proposes draft tokens; None without speculation.
        """
        self.model = model
        self.params = rules
        self.prompt = list(prompt)
        self.limit = limit
        self.randomness = chance
        self.cost = DecodingCost()
        self._root: Cache | None = None  # the prompt, in one row
        self._first: Distribution | None = None  # after it
        self._step = DecodingStep(model, drafting)
        self.speculation = drafting
        self._drafter = None if drafting is None else drafting.lazy_drafter(self.prompt)
        self._laws: dict[tuple[int, int], Distribution] = {}  # by row and node

    @property
    def forwards(self) -> int:
        """Rows of all forward passes so far."""
        return self.cost.forwards

    @property
    def key(self) -> str:
        """A fingerprint of everything that a prefix trie depends on."""
        constraint = self.params.automaton.constraint
        parts = (
            self.model.fingerprint,
            self.model.vocabulary.fingerprint,
            self.prompt,
            getattr(constraint, "key", repr(constraint)),
            self.params.warp,
            self.params.certain_ends,
            self.limit,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def start(
        self, chances: Sequence[Randomness], draws: Sequence[Sequence[Draw]] = ()
    ) -> list[TokenSequence]:
        """New sequences, each with its draws committed again."""
        self._step.cache = None
        texts = []
        for i, chance in enumerate(chances):
            drafter = None if self._drafter is None else self._drafter.copy()
            text = TokenSequence(self.params, self.prompt, chance, self.limit, self.cost, drafter)
            text.unread.clear()
            for draw in draws[i] if draws else ():
                text.commit(replace(draw, checks=0))  # these checks were counted when the draw was made
                self.cost.tokens -= 1
            texts.append(text)
        self.cost.attempts += len(texts)
        return texts

    def forward(self, texts: Sequence[TokenSequence], sampler: TokenSampler | None = None) -> list[Position]:
        """The next position of each sequence: one forward pass, or none where all last draws were accepted draft tokens."""
        if self._root is None:
            self._root = self.model.cache(1)
            self._first = Distribution(self.model.forward([self.prompt], self._root)[0], self.params.warp)
            self._count(1)
        fresh = self._step.cache is None
        if fresh and not any(text.tokens for text in texts):
            assert self._first is not None
            for text in texts:
                text.stats.forwards += 1
            return [text.position(self._first) for text in texts]
        if not fresh and self._step.follow(texts):
            return [text.position(self._law(text)) for text in texts]
        assert all(text.unread for text in texts), "sequences with and without tokens were started together"
        prefixes: dict[tuple[int, ...], list[TokenSequence]] = {}
        for text in texts:
            prefixes.setdefault(tuple(text.tokens), []).append(text)
        rows = list(prefixes.values())
        if fresh:
            self._step.cache = self._root.fork([0] * len(rows))
        else:
            self._step.settle([row[0] for row in rows])
        top_count = 0 if sampler is None else sampler.top_count(self.params.warp)
        self._step.forward(rows, [top_count] * len(rows))
        self._laws.clear()
        self._count(len(rows))
        return [text.position(self._law(text)) for text in texts]

    def _law(self, text: TokenSequence) -> Distribution:
        """The model's next-token distribution of a sequence; sequences at one row and node share it."""
        at = (text.cache_row, text.node)
        if at not in self._laws:
            self._laws[at] = self._step.distribution(text)
        return self._laws[at]

    def _count(self, rows: int) -> None:
        self.cost.passes += 1
        self.cost.forwards += rows
