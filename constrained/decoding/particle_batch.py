"""Particles of one prompt, decoded together over a shared KV cache.

Particles with equal tokens share one row of the cache and of the forward pass; the row is copied when their tokens
differ. The prompt is read once, and so is every prefix for samplers that ask for it (`CachedParticleBatch.reuse_logits`): a
sequence gets a row of the cache when it leaves the prefixes that are known, and that row reads all of its tokens at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from constrained.automaton.closed_texts import closed_language
from constrained.decoding.known_logits import MAX_BYTES, KnownLogits
from constrained.decoding.prompt_reader import score_tree
from constrained.decoding.sequence import DecodingCost, DecodingParams, TokenSequence
from constrained.decoding.speculation import DraftScheduler
from constrained.decoding.step import DecodingStep
from constrained.models import Cache, LanguageModel
from constrained.sampling import Distribution, Draw, LogitsWarper, Position, Randomness, TokenSampler
from constrained.sampling.base import ClosedDistribution
from constrained.sampling.token_tree import TokenTree

_NO_ROW = -1
"""`TokenSequence.cache_row` of a sequence that no row of the cache has read."""


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
        self.params = replace(rules, jumps=False, slots=False)  # a weight needs the logits of each token
        self.prompt = list(prompt)
        self.limit = limit
        self.randomness = chance
        self.cost = DecodingCost()
        self._root: Cache | None = None  # the prompt, in one row
        self._first: Distribution | None = None  # after it
        self._step = DecodingStep(model, drafting)
        self.speculation = drafting
        healed = rules.automaton if rules.begin else None
        self._drafter = None if drafting is None else drafting.lazy_drafter(self.prompt, healed, drawn=True)
        self._laws: dict[tuple[int, int], Distribution] = {}  # by row and node
        self._known: KnownLogits | None = None

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
        texts: list[TokenSequence] = []
        for i, chance in enumerate(chances):
            drafter = None if self._drafter is None else self._drafter.copy()
            text = TokenSequence(self.params, self.prompt, chance, self.limit, self.cost, drafter)
            text.unread.clear()
            text.cache_row = _NO_ROW
            for draw in draws[i] if draws else ():
                text.commit(replace(draw, checks=0))  # these checks were counted when the draw was made
                self.cost.tokens -= 1
            texts.append(text)
        self.cost.attempts += len(texts)
        return texts

    @property
    def warper(self) -> LogitsWarper:
        """Temperature and truncations."""
        return self.params.warp

    def closed_distribution(self, *, certain_ends: bool) -> ClosedDistribution | None:
        """See `ParticleBatch.closed_distribution`."""
        texts = closed_language(self.params.automaton)
        if texts is None:
            return None
        warp = self.params.warp
        ends = list(self.params.automaton.vocabulary.eos_ids)
        counted = [None if certain_ends and text.only_end else np.array(ends, np.intp) for text in texts]
        scores = score_tree(
            self.model,
            self.prompt,
            TokenTree.of([text.tokens for text in texts]),
            counted,
            lambda row, before: warp.scale(warp.adjust(row, self.prompt, before) if warp.adjusts else row),
        )
        self.cost.passes += scores.passes
        self.cost.forwards += scores.passes
        draws = [
            [
                Draw(token, float(logprob), 0.0, checks=0)
                for token, logprob in zip(
                    (*text.tokens, ends[0]), (*scores.path(index), scores.ends[index]), strict=True
                )
            ]
            for index, text in enumerate(texts)
        ]
        return ClosedDistribution(
            draws, scores.totals, np.array([len(text.tokens) <= self.limit for text in texts])
        )

    def reuse_logits(self, max_bytes: int = MAX_BYTES) -> None:
        """Reads each prefix once from now on, also after another `start`, as far as its logits fit into memory.

        Without effect where the model's caches cannot append rows: sequences leave the known prefixes one by one.
        """
        if self._known is None:
            self._known = KnownLogits(max_bytes)

    def forward(self, texts: Sequence[TokenSequence], sampler: TokenSampler | None = None) -> list[Position]:
        """The next position of each sequence: one forward pass, or none where all logits are known.

        Logits are known of the prompt, of accepted draft tokens, and after `reuse_logits` of prefixes that were read.
        """
        if self._root is None:
            self._root = self.model.cache(1)
            if type(self._root).join is Cache.join:
                self._known = None
            self._first = Distribution(self.model.forward([self.prompt], self._root)[0], self.params.warp)
            self._count(1)
        prefixes = [tuple(text.tokens) for text in texts]
        known: dict[tuple[int, ...], Distribution] = {}
        unknown: dict[tuple[int, ...], list[TokenSequence]] = {}
        for text, prefix in zip(texts, prefixes, strict=True):
            found = known.get(prefix) or self._recall(prefix)
            if found is None:
                unknown.setdefault(prefix, []).append(text)
                continue
            known[prefix] = found
            text.cache_row, text.node, text.tree_logits = _NO_ROW, 0, None
            text.stats.forwards += 1
        if unknown:
            self._read(list(unknown.values()), sampler)
        return [
            text.position(known[prefix] if prefix in known else self._law(text, prefix))
            for text, prefix in zip(texts, prefixes, strict=True)
        ]

    def _recall(self, prefix: tuple[int, ...]) -> Distribution | None:
        """The distribution after a prefix, if its logits are known."""
        if not prefix:
            return self._first
        logits = None if self._known is None else self._known.get(prefix)
        return None if logits is None else Distribution(logits, self.params.warp)

    def _read(self, rows: list[list[TokenSequence]], sampler: TokenSampler | None) -> None:
        """Reads sequences, those with equal tokens as one row, unless all their last tokens were accepted draft tokens."""
        held = [row for row in rows if row[0].cache_row != _NO_ROW]
        new = [row for row in rows if row[0].cache_row == _NO_ROW]
        if not new and self._step.follow([text for row in rows for text in row]):
            return
        assert self._root is not None
        if held:
            self._step.settle([row[0] for row in held])
        if new:
            added = self._root.branch(len(new))
            for row in new:
                row[0].unread[:] = row[0].tokens
            if held:
                assert self._step.cache is not None
                self._step.cache.join(added)
            else:
                self._step.cache = added
        rows = held + new
        top_count = 0 if sampler is None else sampler.top_count(self.params.warp)
        self._step.forward(rows, [top_count] * len(rows))
        self._laws.clear()
        self._count(len(rows))

    def _law(self, text: TokenSequence, prefix: tuple[int, ...]) -> Distribution:
        """The model's next-token distribution of a sequence; sequences at one row and node share it."""
        at = (text.cache_row, text.node)
        if at not in self._laws:
            self._laws[at] = self._step.distribution(text)
            if self._known is not None and self._known.has_room(prefix, self.model.vocabulary.size):
                self._known.add(prefix, self._laws[at].logits)
        return self._laws[at]

    def _count(self, rows: int) -> None:
        self.cost.passes += 1
        self.cost.forwards += rows
