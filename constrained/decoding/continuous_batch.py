"""Texts that are written side by side, and come and go between two steps: a batch for a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.sequence import Answer
from constrained.decoding.speculation import Branch, Speculation, read
from constrained.models import Cache, LanguageModel


class Writing(Protocol):
    """A text that is being written, as `Answer` is one.

    Attributes:
        answer: its tokens, and what guesses them.
        unread: ids that the model has not read yet: the prompt, then what was committed since.
        finished: nothing more is wanted.
    """

    @property
    def answer(self) -> Answer:
        """See above."""

    @property
    def unread(self) -> Sequence[int]:
        """See above."""

    @property
    def finished(self) -> bool:
        """See above."""

    def take(self, logits: NDArray[np.floating[Any]]) -> None:
        """Goes on by a token. Must not raise: an error of one text is no matter of its neighbours."""


Text = TypeVar("Text", bound=Writing)


class Batch(Generic[Text]):
    """Texts of different calls in one forward pass. For one thread.

    What a text becomes does not depend on the company it is in: its prompt is read alone, each of its tokens is drawn
    from its own logits with its own noise. (Rounding can tell a batch from a single text, see `Generator`.)

    Attributes:
        texts: those that are being written, a row of the cache each.
    """

    def __init__(
        self, model: LanguageModel, drafting: Speculation | None = None, *, drafted: int | None = None
    ) -> None:
        """Starts without texts.

        Args:
            model: reads the texts.
            drafting: decides how many guesses a pass reads, for texts of all constraints; their answers then have
                drafters. None to read one token at a time.
            drafted: guess only while there are at most so many texts; None: always.
        """
        self.texts: list[Text] = []
        self._model = model
        self._drafting = drafting
        self._drafted = drafted
        self._cache: Cache | None = None

    def add(self, texts: Sequence[Text]) -> None:
        """Lets texts of one prompt in: the prompt is read once, and each of them gets its first token.

        Args:
            texts: fresh ones, with equal `unread`; those that are finished without a token are left out.
        """
        fresh = [text for text in texts if not text.finished]
        if not fresh:
            return
        cache = self._model.cache(1)
        logits = self._model.forward([fresh[0].unread], cache)[0]
        for text in fresh:
            text.take(logits)
        going = [text for text in fresh if not text.finished]
        if not going:
            return
        if len(going) > 1:
            cache.keep([0] * len(going))
        if self._cache is None:
            self._cache = cache
        else:
            self._cache.join(cache)
        self.texts += going

    def step(self) -> None:
        """A token or more for every text; those that end leave."""
        self.sweep()
        if not self.texts:
            return
        assert self._cache is not None
        few = self._drafted is None or len(self.texts) <= self._drafted
        drafting = self._drafting if few else None
        branches = read(self._model, self._cache, [text.answer for text in self.texts], drafting)
        nodes = [_follow(text, branch) for text, branch in zip(self.texts, branches, strict=True)]
        came = sum(branch.depth(node) for branch, node in zip(branches, nodes, strict=True))
        if drafting is not None and came:
            drafting.came(self._model, len(self.texts), came)
        rows = [i for i, text in enumerate(self.texts) if not text.finished]
        if rows and any(branch.tree is not None for branch in branches):
            self._cache.settle(rows, [branches[i].path(nodes[i]) for i in rows])
            self.texts = [self.texts[i] for i in rows]
        else:
            self.sweep()

    def sweep(self) -> None:
        """Lets go of what is finished, and of the memory it took."""
        rows = [i for i, text in enumerate(self.texts) if not text.finished]
        if len(rows) == len(self.texts):
            return
        self.texts = [self.texts[i] for i in rows]
        if not rows:
            self._cache = None
        elif self._cache is not None:
            self._cache.keep(rows)

    def clear(self) -> None:
        """Lets go of everything."""
        self.texts, self._cache = [], None


def _follow(text: Writing, branch: Branch) -> int:
    """Draws tokens along what was guessed; the node where the last one was drawn."""
    node = after = 0
    answer = text.answer
    answer.branch = branch
    while after >= 0:
        node = answer.node = after
        if answer.drafter is not None and answer.drafter.awake:
            answer.drafter.see(branch.favourites(node))
        text.take(branch.row(node))
        if text.finished:
            break
        after = branch.after(node, answer.tokens[-1])
    return node
