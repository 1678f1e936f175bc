"""The interface of a language model."""

from __future__ import annotations

import copy
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constrained.models.logits import HostLogits, Logits
from constrained.vocabulary import Vocabulary

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]
"""A text, a chat (``{"role", "content"}`` messages), or token ids."""


class Cache(ABC):
    """What a model remembers of several texts, its rows. Rows are independent of each other."""

    @property
    @abstractmethod
    def lengths(self) -> list[int]:
        """Tokens read so far, per row. The next token of a row has this absolute position."""

    @abstractmethod
    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order; a row named twice is copied."""

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Decides what stays of the trees that `LanguageModel.forward_trees` read last.

        Args:
            rows: row i becomes what row ``rows[i]`` was; a row named twice is copied.
            paths: of the tokens that row read last, those to keep: indices along one path from the beginning, which
                has at least the tokens that were skipped and the one after them.
        """
        raise NotImplementedError

    def fork(self, rows: Sequence[int]) -> Cache:
        """A cache of its own with these rows, in this order; this one stays as it is."""
        twin = copy.deepcopy(self)
        twin.keep(rows)
        return twin

    def join(self, other: Cache) -> None:
        """Takes the rows of another cache of the same model behind its own; the other one is used up.

        Raises:
            NotImplementedError: this kind of cache cannot.
        """
        raise NotImplementedError(f"a {type(self).__name__} takes in no rows of another cache")


class LanguageModel(ABC):
    """A causal language model and its vocabulary. Safe to share between threads: all memory is in caches.

    Attributes:
        vocabulary: the bytes of its tokens; `vocabulary.size` is the width of its logits.
        context: greatest number of positions it can read, or None if there is no limit.
    """

    vocabulary: Vocabulary
    context: int | None = None
    no_trees: str | None = "the model reads one continuation at a time"
    """Why `forward_trees` cannot be called with trees; None where it can."""
    no_chains: str | None = "the model reads one continuation at a time"
    """Why it cannot be called with chains either, where each token follows the one before it; None where it can. Not
    asked about a model that reads trees."""

    bitwise_reproducible: bool = False
    """Logits are asked to be the same bits in whatever pass they are read: nothing is guessed unless a `Speculation` is configured."""

    @cached_property
    def fingerprint(self) -> str:
        """Names what the model computes. By default no other object has the same one, and no other process."""
        return f"{type(self).__qualname__}-{uuid.uuid4().hex}"

    @abstractmethod
    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """Token ids of a prompt, at least one.

        Args:
            prompt: a text, messages, or ids (checked and passed on).
            chat: put a text into the tokenizer's chat template, if it has one, as one user message.

        Raises:
            PromptError: the prompt is of another type, empty, or has ids outside the vocabulary.
        """

    @abstractmethod
    def cache(self, rows: int) -> Cache:
        """An empty cache for this many texts."""

    @abstractmethod
    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """Reads tokens at the end of each row of the cache.

        Args:
            tokens: one sequence of at least one id per row of the cache; lengths may differ.
            cache: remembers the tokens, and is changed.

        Returns:
            Logits after the last token of each row, float32 [rows, vocabulary.size].
        """

    def forward_trees(
        self,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        cache: Cache,
    ) -> list[NDArray[np.float32]]:
        """Reads several continuations of each row at once, up to where they part as one.

        Must be followed by `Cache.settle`, which says which of them was the right one.

        Args:
            tokens: per row of the cache: ids, any number.
            parents: per token: the index of the token before it, lower than its own; -1: it follows the row.
            skip: per row: so many tokens at the beginning need no logits.
            cache: remembers all tokens until it is settled.

        Returns:
            Per row: logits after each token that is not skipped, float32 [tokens, vocabulary.size].
        """
        raise NotImplementedError

    def forward_logits(
        self,
        tokens: Sequence[Sequence[int]],
        trees: tuple[Sequence[Sequence[int]], Sequence[int]] | None,
        cache: Cache,
    ) -> Logits:
        """A pass whose logits may stay where they were computed.

        Args:
            tokens: as in `forward`, or in `forward_trees`.
            trees: the arguments ``parents`` and ``skip`` of `forward_trees`; None for `forward`.
            cache: remembers the tokens.

        Returns:
            What the other two give, row after row.
        """
        if trees is None:
            return HostLogits([self.forward(tokens, cache)])
        return HostLogits(self.forward_trees(tokens, *trees, cache))
