"""A cache of one sequence in the model's own kind of cache: for models that do not accept arbitrary attention masks.

Recurrent layers cannot undo a token. Draft tokens are therefore read after a copy of the state is stored; if not all of
them are accepted, the copy is restored, and the accepted ones are read again together with the next tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from constrained.models.attention_masks import is_chain
from constrained.models.base import Cache
from constrained.models.cache import ForwardFunction, HuggingFaceCache, forward_row
from constrained.models.positions import COLUMNS, Positions

if TYPE_CHECKING:
    import torch

    from constrained.models.upload import PassUpload

_AGAIN = 16
"""Most tokens that are read again; more than these are read in a pass of their own, and draft tokens in a second one."""


class ForwardMode(Enum):
    """How a model reads tokens."""

    TREES = "trees"
    """Draft trees, all rows in one forward pass."""
    CHAINS = "chains"
    """One forward pass per sequence, with one chain of draft tokens."""
    STEPS = "steps"
    """One forward pass per sequence, and after its prompt one token per pass."""
    WHOLE = "whole"
    """One forward pass per sequence, each over the whole sequence: there is no cache."""


class SequentialCache(HuggingFaceCache):
    """A cache of one row.

    Invariant: the transformers cache has read the sequence without its last tokens, `_behind`; without a cache these
    are the whole sequence.
    """

    def __init__(self, make: Callable[[], Any], mode: ForwardMode, positions: Positions = COLUMNS) -> None:
        """Creates an empty cache.

        Args:
            make: creates an empty transformers cache of one row.
            mode: how the model reads tokens.
            positions: of ids.
        """
        self._length, self._shift, self._positions = 0, 0, positions
        self._way = mode
        self._cache = None if mode is ForwardMode.WHOLE else make()
        self._behind: list[int] = []
        self._before: Any = None  # copy of the cache before the last draft tokens
        self._last: list[int] = []  # tokens read since that copy
        self._tree = 0  # tokens of the last chain

    @property
    def lengths(self) -> list[int]:
        """Tokens read so far, of the row."""
        return [self._length]

    def keep(self, rows: Sequence[int]) -> None:
        """Keeps the row, or drops it."""
        assert len(rows) <= 1, "a cache of one row cannot hold several"

    def fork(self, rows: Sequence[int]) -> Cache:
        """A copy."""
        self.keep(rows)
        twin = copy.copy(self)
        twin._cache, twin._before = clone_cache(self._cache), clone_cache(self._before)
        return twin

    def forward(
        self, run: ForwardFunction, tokens: Sequence[Sequence[int]], upload: PassUpload
    ) -> torch.Tensor:
        """Reads tokens in as few passes as the mode allows; logits after the last token, [1, V]."""
        (ids,) = tokens
        return self._read(run, ids, upload, every=1)

    def forward_trees(
        self,
        run: ForwardFunction,
        tokens: Sequence[Sequence[int]],
        parents: Sequence[Sequence[int]],
        skip: Sequence[int],
        upload: PassUpload,
    ) -> list[torch.Tensor]:
        """Reads a chain: the skipped tokens and the next one are committed, the rest are draft tokens.

        Raises:
            ValueError: the tree is not a chain.
        """
        import torch

        (ids,), (before,), (start,) = tokens, parents, skip
        if not is_chain(before):
            raise ValueError("this model reads one continuation per pass, not a tree")
        self._tree, self._before = len(ids), None
        if self._crops or self._way is ForwardMode.WHOLE:
            return [self._read(run, ids, upload, every=len(ids) - start)]
        logits = []
        if len(self._behind) + start + 1 > _AGAIN or len(ids) == start + 1:
            logits.append(self._read(run, ids[: start + 1], upload, every=1))
            ids, start = ids[start + 1 :], 0
        if ids:
            self._before, self._last = clone_cache(self._cache), [*self._behind, *ids]
            logits.append(self._read(run, ids, upload, every=len(ids) - start))
        return [torch.cat(logits)]

    def keep_paths(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Keeps a prefix of the chain, with at least its committed tokens."""
        self.keep(rows)
        (path,) = paths
        wrong = self._tree - len(path)
        self._length -= wrong
        if wrong and self._way is ForwardMode.WHOLE:
            self._behind = self._behind[:-wrong]
        elif wrong and self._crops:
            self._cache.crop(-wrong)  # type: ignore[union-attr]
        elif wrong:
            assert self._before is not None, "committed tokens cannot be rejected"
            assert wrong <= len(self._last), "committed tokens cannot be rejected"
            self._cache, self._behind = self._before, self._last[:-wrong]
        self._before = None

    @property
    def _crops(self) -> bool:
        """Whether every layer can drop its last tokens exactly."""
        from transformers.cache_utils import DynamicLayer

        from constrained.models.slab import EMPTY_LAYER

        return self._cache is not None and all(
            type(layer) in (DynamicLayer, EMPTY_LAYER) for layer in self._cache.layers
        )

    def _read(
        self, run: ForwardFunction, ids: Sequence[int], upload: PassUpload, *, every: int
    ) -> torch.Tensor:
        """Reads `_behind` and more tokens; logits after the last `every` ones, [every, V]."""
        unread, start = [*self._behind, *ids], self._length - len(self._behind)
        known = self._positions
        shift = self._shift - known.shift(self._behind)
        self._length += len(ids)
        self._shift += known.shift(ids)
        if self._way is ForwardMode.WHOLE:
            self._behind = unread
            return forward_row(run, unread, None, 0, upload, every=every, positions=known, shift=shift)
        self._behind = []
        if self._way is ForwardMode.STEPS and start:
            assert every == 1, "a model that reads one token per pass cannot verify draft tokens"
            for i, token in enumerate(unread):
                logits = forward_row(
                    run, [token], self._cache, start + i, upload,
                    positions=known, shift=shift + known.shift(unread[:i]),
                )  # fmt: skip
            return logits
        return forward_row(run, unread, self._cache, start, upload, every=every, positions=known, shift=shift)


def clone_cache(cache: Any) -> Any:
    """An independent copy. Keys and values are replaced by layers, so they are shared; states change in place."""
    if cache is None:
        return None
    twin = copy.copy(cache)
    twin.layers = [_copied(layer) for layer in cache.layers]
    return twin


def _copied(layer: Any) -> Any:
    from transformers import cache_utils as kinds

    from constrained.models.slab import EMPTY_LAYER

    states = (
        kinds.LinearAttentionLayer,
        kinds.LinearAttentionAndFullAttentionLayer,
        kinds.LinearAttentionAndSlidingWindowAttentionLayer,
    )
    plain = (kinds.DynamicLayer, kinds.DynamicSlidingWindowLayer, EMPTY_LAYER)
    if type(layer) not in (*states, *plain):
        return copy.deepcopy(layer)
    twin = copy.copy(layer)
    for name, value in vars(layer).items():
        if isinstance(value, dict):  # one entry a state
            setattr(twin, name, {i: _cloned(one) for i, one in value.items()})
    return twin


def _cloned(value: Any) -> Any:
    import torch

    return value.clone() if isinstance(value, torch.Tensor) else value
