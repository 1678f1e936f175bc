"""Texts of one prompt, written side by side by a sampler of many: what they have in common is read once.

Equal beginnings share a row of the cache until they differ: texts that stand at the same tokens are one row of a
forward pass, and what they have said is copied when they part. The prompt is read once and held once for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from constrained.decoding.sequence import Answer, Count, Rules
from constrained.decoding.speculation import Branch, Speculation, read
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
        drafting: Speculation | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            model: reads the texts.
            rules: what they share.
            prompt: ids, at least one.
            limit: greatest number of tokens of a text.
            chance: the randomness of an attempt, by its number.
            drafting: guesses what follows; None to read one token at a time.
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
        self.drafting = drafting
        self._drafter = None if drafting is None else drafting.waiting(self.prompt)
        self._branches: list[Branch] = []  # what the last pass read, by row
        self._laws: dict[tuple[int, int], Distribution] = {}  # by row and node

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
            drafter = None if self._drafter is None else self._drafter.copy()
            text = Answer(self.rules, self.prompt, chance, self.limit, self.count, drafter)
            text.unread.clear()
            for draw in draws[i] if draws else ():
                text.commit(replace(draw, checks=0))  # another text has paid for it
                self.count.tokens -= 1
            texts.append(text)
        self.count.attempts += len(texts)
        return texts

    def read(self, texts: Sequence[Answer]) -> list[Position]:
        """The positions, see `constrained.sampling.Pool`: one forward pass, or none where it was guessed what comes."""
        if self._root is None:
            self._root = self.model.cache(1)
            self._first = Distribution(self.model.forward([self.prompt], self._root)[0], self.rules.warp)
            self._count(1)
        fresh = self._cache is None
        if fresh and not any(text.tokens for text in texts):
            assert self._first is not None
            for text in texts:
                text.stats.forwards += 1
            return [text.position(self._first) for text in texts]
        if not fresh and self._follow(texts):
            return [text.position(self._law(text)) for text in texts]
        rows: dict[tuple[int, ...], int] = {}
        parents: list[int] = []
        paths: list[list[int]] = []
        firsts: list[Answer] = []
        for text in texts:
            assert text.unread, "a text with tokens and one without were started together"
            said = tuple(text.tokens)
            if said not in rows:
                rows[said] = len(parents)
                parents.append(0 if fresh else text.row)
                paths.append([] if fresh else self._branches[text.row].path(text.node))
                firsts.append(text)
            text.row, text.node = rows[said], 0
        if self._cache is None:
            self._cache = self._root.fork(parents)
        elif any(branch.tree is not None for branch in self._branches):
            self._cache.settle(parents, paths)
        elif parents != list(range(len(self._cache.lengths))):
            self._cache.keep(parents)
        self._branches = read(self.model, self._cache, firsts, self.drafting)
        self._laws.clear()
        self._count(len(firsts))
        for text in texts:
            text.branch = self._branches[text.row]
            text.stats.forwards += 1
        return [text.position(self._law(text)) for text in texts]

    def _follow(self, texts: Sequence[Answer]) -> bool:
        """Moves texts along what was guessed; False, and nothing is moved, if one of them went another way."""
        nodes = [self._branches[text.row].after(text.node, text.tokens[-1]) for text in texts]
        if min(nodes) < 0:
            return False
        for text, node in zip(texts, nodes, strict=True):
            text.node = node
        if self.drafting is not None:
            self.drafting.came(self.model, len(self._branches), len(self._branches))
        return True

    def _law(self, text: Answer) -> Distribution:
        """The model's law where a text stands; texts that stand at the same place share it."""
        at = (text.row, text.node)
        if at not in self._laws:
            branch = self._branches[text.row]
            self._laws[at] = branch.law(text.node, self.rules.warp)
            if text.drafter is not None and text.drafter.awake:
                text.drafter.see(branch.favourites(text.node))
        return self._laws[at]

    def _count(self, rows: int) -> None:
        self.count.passes += 1
        self.count.forwards += rows
