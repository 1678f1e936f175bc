"""Texts that are written side by side, and come and go between two steps: a batch for a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from constrained.decoding.sequence import TokenSequence
from constrained.decoding.speculation import DraftScheduler, TreeLogits, forward_pass
from constrained.models import Cache, LanguageModel


class BatchedSequence(Protocol):
    """A text that is being written, as `TokenSequence` is one.

    Attributes:
        sequence: its tokens, and what guesses them.
        unread: ids that the model has not read yet: the prompt, then what was committed since.
        finished: nothing more is wanted.
    """

    @property
    def sequence(self) -> TokenSequence:
        """See above."""

    @property
    def unread(self) -> Sequence[int]:
        """See above."""

    @property
    def finished(self) -> bool:
        """See above."""

    def advance(self, logits: NDArray[np.floating[Any]]) -> None:
        """Goes on by a token. Must not raise: an error of one text is no matter of its neighbours."""


MemberT = TypeVar("MemberT", bound=BatchedSequence)


class ContinuousBatch(Generic[MemberT]):
    """Texts of different calls in one forward pass. For one thread.

    What a text becomes does not depend on the company it is in: its prompt is read alone, each of its tokens is drawn
    from its own logits with its own noise. (Rounding can tell a batch from a single text, see `Generator`.)

    Attributes:
        sequences: those that are being written, a row of the cache each.
    """

    def __init__(
        self,
        model: LanguageModel,
        speculation: DraftScheduler | None = None,
        *,
        speculation_max_batch: int | None = None,
    ) -> None:
        """Starts without texts.

        Args:
            model: reads the texts.
            speculation: decides how many guesses a pass reads, for texts of all constraints; their answers then have
                drafters. None to read one token at a time.
            speculation_max_batch: guess only while there are at most so many texts; None: always.
        """
        self.sequences: list[MemberT] = []
        self._model = model
        self._drafting = speculation
        self._drafted = speculation_max_batch
        self._cache: Cache | None = None

    def add(self, sequences: Sequence[MemberT]) -> None:
        """Lets texts of one prompt in: the prompt is read once, and each of them gets its first token.

        Args:
            sequences: fresh ones, with equal `unread`; those that are finished without a token are left out.
        """
        fresh = [text for text in sequences if not text.finished]
        if not fresh:
            return
        cache = self._model.cache(1)
        logits = self._model.forward([fresh[0].unread], cache)[0]
        for text in fresh:
            text.advance(logits)
        going = [text for text in fresh if not text.finished]
        if not going:
            return
        if len(going) > 1:
            cache.keep([0] * len(going))
        if self._cache is None:
            self._cache = cache
        else:
            self._cache.join(cache)
        self.sequences += going

    def step(self) -> None:
        """A token or more for every text; those that end leave."""
        self.remove_finished()
        if not self.sequences:
            return
        assert self._cache is not None
        few = self._drafted is None or len(self.sequences) <= self._drafted
        drafting = self._drafting if few else None
        branches = forward_pass(
            self._model, self._cache, [text.sequence for text in self.sequences], drafting
        )
        nodes = [_follow(text, branch) for text, branch in zip(self.sequences, branches, strict=True)]
        came = sum(branch.depth(node) for branch, node in zip(branches, nodes, strict=True))
        if drafting is not None and came:
            drafting.record_accepted(self._model, len(self.sequences), came)
        rows = [i for i, text in enumerate(self.sequences) if not text.finished]
        if rows and any(branch.tree is not None for branch in branches):
            self._cache.keep_paths(rows, [branches[i].path(nodes[i]) for i in rows])
            self.sequences = [self.sequences[i] for i in rows]
        else:
            self.remove_finished()

    def remove_finished(self) -> None:
        """Lets go of what is finished, and of the memory it took."""
        rows = [i for i, text in enumerate(self.sequences) if not text.finished]
        if len(rows) == len(self.sequences):
            return
        self.sequences = [self.sequences[i] for i in rows]
        if not rows:
            self._cache = None
        elif self._cache is not None:
            self._cache.keep(rows)

    def clear(self) -> None:
        """Lets go of everything."""
        self.sequences, self._cache = [], None


def _follow(text: BatchedSequence, branch: TreeLogits) -> int:
    """Draws tokens along what was guessed; the node where the last one was drawn."""
    node = after = 0
    answer = text.sequence
    answer.tree_logits = branch
    while after >= 0:
        node = answer.node = after
        if answer.drafter is not None and answer.drafter.active:
            answer.drafter.observe_top_tokens(branch.top_tokens(node))
        text.advance(branch.row(node))
        if text.finished:
            break
        after = branch.child(node, answer.tokens[-1])
    return node
