"""The interface of a language model."""

from __future__ import annotations

import copy
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from constrained.models.logits import HostLogits, Logits, PlannedDraws
from constrained.prompting.images import ImageReader
from constrained.vocabulary import Vocabulary
from constrained.vocabulary.token_map import TokenMap

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]
"""A string, a chat (``{"role", "content"}`` messages, with images for a model that takes them), or token ids."""


class Cache(ABC):
    """KV cache of a batch: one row per sequence. Rows are independent of each other."""

    @property
    @abstractmethod
    def lengths(self) -> list[int]:
        """Tokens read so far, per row. The next token of a row has this absolute position."""

    @abstractmethod
    def keep(self, rows: Sequence[int]) -> None:
        """Keeps these rows, in this order; a row named twice is copied."""

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps one path of each draft tree that `LanguageModel.forward_trees` read last.

        Args:
            rows: new row i is old row ``rows[i]``; a row named twice is copied.
            paths: by new row: indices of the tokens to keep, along one path from the root of its tree; at least the
                skipped tokens and the one after them, or none where nothing but the tree was read.
        """
        raise NotImplementedError

    def fork(self, rows: Sequence[int]) -> Cache:
        """An independent cache of these rows, in this order; this cache does not change."""
        twin = copy.deepcopy(self)
        twin.keep(rows)
        return twin

    def branch(self, count: int) -> Cache:
        """Copies of the only row, which go on each for itself and may store it once; joined to other branches of this cache only."""
        return self.fork([0] * count)

    def join(self, other: Cache) -> None:
        """Appends the rows of another cache of this model, which must not be used afterwards.

        Raises:
            NotImplementedError: this kind of cache cannot append rows.
        """
        raise NotImplementedError(f"a {type(self).__name__} takes in no rows of another cache")


class LanguageModel(ABC):
    """A causal language model and its vocabulary. Safe to share between threads: all state is in caches.

    Attributes:
        vocabulary: the bytes of its tokens; `vocabulary.size` is the width of its logits.
        context: greatest number of positions it can read, or None if there is no limit.
    """

    vocabulary: Vocabulary
    context: int | None = None
    no_trees: str | None = "the model reads one continuation at a time"
    """Why `forward_trees` cannot be called with trees; None where it can."""
    no_chains: str | None = "the model reads one continuation at a time"
    """Why `forward_trees` cannot be called with chains either, in which each token follows the one before it; None
    where it can. Read only if `no_trees` is set."""

    reads_prompts_in_parts: bool = False
    """Whether `forward` may read a prompt in several passes, into a cache that can be forked between them; prompts of a batch
    that begin alike are then read once up to there, and text that is forced is read with what stands before it."""

    cache_bytes_per_token: int | None = None
    """Bytes of main memory that a position of a cache takes; None: unknown, or in another memory."""

    plans_draws: bool = False
    """Whether `forward_logits` takes the draws that will be made: the model is on a device, which computes what they need."""

    images: ImageReader | None = None
    """Reads the images of prompts; None: the model takes none. Their positions have ids from `vocabulary.size` on, in prompts alone."""

    assistant: Assistant | None = None
    """What drafts for this one, see `constrained.decoding.assistant`; None: nothing does."""

    adapted_from: LanguageModel | None = None
    """The model whose weights this one uses with an adapter; None: it uses none."""

    no_engine: str | None = None
    """Why the engine that was asked for is not used; None where it is, or none was asked for."""

    bitwise_reproducible: bool = False
    """Whether logits must be equal bit by bit in every forward pass: no speculation unless a `Speculation` is configured."""

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the function that the model computes. By default unique to this object and process."""
        return f"{type(self).__qualname__}-{uuid.uuid4().hex}"

    @abstractmethod
    def encode(self, prompt: Prompt, *, chat: bool = True) -> list[int]:
        """Token ids of a prompt, at least one.

        Args:
            prompt: a string, messages, or ids (checked and returned).
            chat: put a string into the tokenizer's chat template, if it has one, as one user message.

        Raises:
            PromptError: the prompt is of another type, empty, or has ids outside the vocabulary.
            PromptTooLong: a text has so many more tokens than `context` that not all of them were counted.
        """

    def prompt_model(self) -> LanguageModel | None:
        """What encodes prompts as this model does and can be pickled, without weights; None: there is nothing of the kind.

        It has this model's `context` and vocabulary, and its ``tokenizer`` if it has one; it need not compute anything.
        """
        return None

    def warm_up(self, rows: int, drafted: int = 0) -> None:  # noqa: B027 - most models have nothing to do
        """Does what would hold up the first passes, as far as that is known; call it before texts wait for them.

        Args:
            rows: the largest batch.
            drafted: the largest batch in which tokens are drafted.
        """

    @abstractmethod
    def cache(self, rows: int) -> Cache:
        """An empty cache of `rows` rows."""

    @abstractmethod
    def forward(self, tokens: Sequence[Sequence[int]], cache: Cache) -> NDArray[np.float32]:
        """Reads tokens at the end of each row of the cache.

        Args:
            tokens: at least one id per row of the cache; lengths may differ.
            cache: changed in place: the tokens are appended.

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
        """Reads a draft tree behind each row of the cache in one forward pass.

        Must be followed by `Cache.keep_paths`, which keeps one path of each tree.

        Args:
            tokens: per row of the cache: ids, any number.
            parents: per token: index of its parent, lower than its own; -1: the token follows the row.
            skip: per row: number of first tokens that need no logits.
            cache: changed in place: all tokens are appended until `Cache.keep_paths`.

        Returns:
            Per row: logits after each token that is not skipped, float32 [tokens, vocabulary.size].
        """
        raise NotImplementedError

    def forward_logits(
        self,
        tokens: Sequence[Sequence[int]],
        trees: tuple[Sequence[Sequence[int]], Sequence[int]] | None,
        cache: Cache,
        draws: PlannedDraws | None = None,
    ) -> Logits:
        """A forward pass whose logits may stay on the device.

        Args:
            tokens: as in `forward`, or in `forward_trees`.
            trees: the arguments ``parents`` and ``skip`` of `forward_trees`; None for `forward`.
            cache: changed in place.
            draws: that will be made from these logits; only for models that take them (`plans_draws`).

        Returns:
            The logits of `forward` or `forward_trees`, row after row.
        """
        if trees is None:
            return HostLogits([self.forward(tokens, cache)])
        return HostLogits(self.forward_trees(tokens, *trees, cache))


class Assistant(NamedTuple):
    """A smaller model that drafts for a larger one.

    Attributes:
        model: the smaller one.
        tokens: translates between its tokens and those of the larger one.
    """

    model: LanguageModel
    tokens: TokenMap
