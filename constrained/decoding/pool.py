"""Texts of one prompt, written side by side by a sampler of many: what they have in common is read once.

Equal beginnings share a row of the cache until they differ: texts that stand at the same tokens are one row of a
forward pass, and a row is copied when its texts part. The prompt is read once for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.answer import Answer, Count, Rules
from constrained.models import Cache, LanguageModel
from constrained.sampling import Chance, Distribution, Draw, Position


class Writers:
    """The `constrained.sampling.Pool` of the decoding loop.

    Attributes:
        count: what it has cost so far.
        key: names model, prompt, constraint, temperature and limit.
    """

    def __init__(
        self,
        model: LanguageModel,
        rules: Rules,
        prompt: Sequence[int],
        limit: int,
        chance: Callable[[int], Chance],
    ) -> None:
        """Reads nothing yet.

        Args:
            model: reads the texts.
            rules: what they share.
            prompt: ids, at least one.
            limit: greatest number of tokens of a text.
            chance: the randomness of an attempt, by its number.
        """
        self.model = model
        self.rules = rules
        self.prompt = list(prompt)
        self.limit = limit
        self.chance = chance
        self.count = Count()
        self._root: Cache | None = None  # the prompt, in one row
        self._first: Distribution | None = None  # after it
        self._cache: Cache | None = None

    @property
    def forwards(self) -> int:
        """Rows that the model has read so far."""
        return self.count.forwards

    @property
    def key(self) -> str:
        """A fingerprint of everything that a trie depends on."""
        constraint = self.rules.automaton.constraint
        parts = (
            self.model.fingerprint,
            self.model.vocabulary.fingerprint,
            self.prompt,
            getattr(constraint, "key", repr(constraint)),
            self.rules.warp,
            self.limit,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def start(self, chances: Sequence[Chance], draws: Sequence[Sequence[Draw]] = ()) -> list[Answer]:
        """New texts, see `constrained.sampling.Pool`."""
        self._cache = None
        texts = []
        for i, chance in enumerate(chances):
            text = Answer(self.rules, self.prompt, chance, self.limit, self.count)
            text.unread.clear()
            for draw in draws[i] if draws else ():
                text.commit(replace(draw, checks=0))  # another text has paid for it
                self.count.tokens -= 1
            texts.append(text)
        self.count.attempts += len(texts)
        return texts

    def read(self, texts: Sequence[Answer]) -> list[Position]:
        """One forward pass, see `constrained.sampling.Pool`."""
        if self._root is None:
            self._root = self.model.cache(1)
            self._first = self._law(self.model.forward([self.prompt], self._root)[0])
            self._count(1)
        fresh = self._cache is None
        if fresh and not any(text.tokens for text in texts):
            assert self._first is not None
            return [text.position(self._first) for text in texts]
        rows: dict[tuple[int, ...], int] = {}
        parents: list[int] = []
        unread: list[list[int]] = []
        for text in texts:
            assert text.unread, "a text with tokens and one without were started together"
            said = tuple(text.tokens)
            if said not in rows:
                rows[said] = len(parents)
                parents.append(0 if fresh else text.row)
                unread.append(list(text.unread))
            text.row = rows[said]
        if self._cache is None:
            self._cache = self._root.fork(parents)
        elif parents != list(range(len(self._cache.lengths))):
            self._cache.keep(parents)
        laws = [self._law(logits) for logits in self.model.forward(unread, self._cache)]
        self._count(len(unread))
        return [text.position(laws[text.row]) for text in texts]

    def _law(self, logits: NDArray[np.floating[Any]]) -> Distribution:
        return Distribution(logits, self.rules.warp)

    def _count(self, rows: int) -> None:
        self.count.passes += 1
        self.count.forwards += rows
