"""A cache of one text as the model itself keeps it: for models that take no mask of any shape.

Layers with a state cannot take a token back. What is read of a guess is therefore read from a copy of the state, and when
not all of it was right, the state from before comes back and what was right is read again, with what comes next.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from constrained.models.attention_masks import is_chain
from constrained.models.base import Cache
from constrained.models.batched_cache import forward_row
from constrained.models.cache import ForwardFunction, HuggingFaceCache

if TYPE_CHECKING:
    import torch

_AGAIN = 16
"""More tokens than these are not read again: they are read by themselves, and a guess behind them in a second pass."""


class ForwardMode(Enum):
    """How a model can be read."""

    TREES = "trees"
    """Several continuations at once, rows side by side."""
    CHAINS = "chains"
    """One text after the other, one continuation each."""
    STEPS = "steps"
    """One text after the other, and behind its first tokens one token at a time."""
    WHOLE = "whole"
    """One text after the other, each time from its beginning: nothing is remembered."""


class SequentialCache(HuggingFaceCache):
    """One row.

    Invariant: the cache has read the text without its last `_behind` tokens; without a cache these are the whole text.
    """

    def __init__(self, make: Callable[[], Any], mode: ForwardMode) -> None:
        """Holds nothing.

        Args:
            make: an empty cache of transformers, for one row.
            mode: how to read.
        """
        super().__init__(1)
        self._way = mode
        self._cache = None if mode is ForwardMode.WHOLE else make()
        self._behind: list[int] = []
        self._before: Any = None  # the cache before what was read last
        self._last: list[int] = []  # what was read since then
        self._tree = 0  # tokens of the last chain

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps the row, or nothing."""
        assert len(rows) <= 1, "a cache of one row cannot hold several"

    def fork(self, rows: Sequence[int]) -> Cache:
        """A copy."""
        self.keep(rows)
        twin = copy.copy(self)
        twin._lengths = list(self._lengths)
        twin._cache, twin._before = clone_cache(self._cache), clone_cache(self._before)
        return twin

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], device: torch.device
    ) -> torch.Tensor:
        """As much as is allowed in one pass; logits after the last token, [1, V]."""
        (ids,) = tokens
        return self._read(run, ids, device, every=1)

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        device: torch.device,
    ) -> list[torch.Tensor]:
        """A chain: what is skipped and the token behind that are the row's own, the rest is a guess.

        Raises:
            ValueError: it is not a chain.
        """
        import torch

        (ids,), (before,), (start,) = tokens, parents, skip
        if not is_chain(before):
            raise ValueError("several continuations of one text cannot be read at once by this model")
        self._tree, self._before = len(ids), None
        if self._crops or self._way is ForwardMode.WHOLE:
            return [self._read(run, ids, device, every=len(ids) - start)]
        logits = []
        if len(self._behind) + start + 1 > _AGAIN or len(ids) == start + 1:
            logits.append(self._read(run, ids[: start + 1], device, every=1))
            ids, start = ids[start + 1 :], 0
        if ids:
            self._before, self._last = clone_cache(self._cache), [*self._behind, *ids]
            logits.append(self._read(run, ids, device, every=len(ids) - start))
        return [torch.cat(logits)]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps the beginning of the chain, at least what was the row's own of it."""
        self.keep(rows)
        (path,) = paths
        wrong = self._tree - len(path)
        self._lengths[0] -= wrong
        if wrong and self._way is ForwardMode.WHOLE:
            self._behind = self._behind[:-wrong]
        elif wrong and self._crops:
            self._cache.crop(-wrong)  # type: ignore[union-attr]
        elif wrong:
            assert self._before is not None, "what is the row's own cannot be taken back"
            assert wrong <= len(self._last), "what is the row's own cannot be taken back"
            self._cache, self._behind = self._before, self._last[:-wrong]
        self._before = None

    @property
    def _crops(self) -> bool:
        """Whether every layer can take tokens back exactly."""
        from transformers.cache_utils import DummyLayer, DynamicLayer

        return self._cache is not None and all(
            type(layer) in (DynamicLayer, DummyLayer) for layer in self._cache.layers
        )

    def _read(
        self, run: ForwardFunction, ids: Sequence[int], device: torch.device, *, every: int
    ) -> torch.Tensor:
        """Reads what is behind and more; logits after the last ones, [every, V]."""
        unread, start = [*self._behind, *ids], self._lengths[0] - len(self._behind)
        self._lengths[0] += len(ids)
        if self._way is ForwardMode.WHOLE:
            self._behind = unread
            return forward_row(run, unread, None, 0, device, every=every)
        self._behind = []
        if self._way is ForwardMode.STEPS and start:
            assert every == 1, "a model that is read in steps reads no guesses"
            for i, token in enumerate(unread):
                logits = forward_row(run, [token], self._cache, start + i, device)
            return logits
        return forward_row(run, unread, self._cache, start, device, every=every)


def clone_cache(cache: Any) -> Any:
    """A cache that goes its own way. Keys and values are only ever replaced, states are changed in place."""
    if cache is None:
        return None
    twin = copy.copy(cache)
    twin.layers = [_copied(layer) for layer in cache.layers]
    return twin


def _copied(layer: Any) -> Any:
    from transformers import cache_utils as kinds

    states = (
        kinds.LinearAttentionLayer,
        kinds.LinearAttentionAndFullAttentionLayer,
        kinds.LinearAttentionAndSlidingWindowAttentionLayer,
    )
    plain = (kinds.DynamicLayer, kinds.DynamicSlidingWindowLayer, kinds.DummyLayer)
    if type(layer) not in (*states, *plain):
        return copy.deepcopy(layer)
    twin = copy.copy(layer)
    for name, held in vars(layer).items():
        if isinstance(held, dict):  # one entry a state
            setattr(twin, name, {i: _cloned(one) for i, one in held.items()})
    return twin


def _cloned(held: Any) -> Any:
    import torch

    return held.clone() if isinstance(held, torch.Tensor) else held
