"""Keys and values of some sequences in tensors that are made once and written in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from transformers import DynamicCache, cache_utils

from constrained.models.attention_masks import AttentionLayout
from constrained.spec.kernels import LayerCaches
from constrained.spec.kernels import caches as kernels

EMPTY_LAYER: Any = getattr(cache_utils, "DummyLayer", None)
"""The class of layers without keys and values; None where transformers leaves them out of its caches."""


@dataclass(eq=False, slots=True)
class PassTarget:
    """Where a forward pass writes, and what it looks at; the layers of a slab share it.

    Attributes:
        slots: the first of the slots that the pass reads, and the one after the last.
        shown: number of first columns that its queries may see, without the slab's prefix.
        columns: the columns it writes, where they are the same in all its slots; None: `places`.
        places: the slot and the column of each token, int64 [slots, 1] and [slots, tokens].
        hidden: by kind of layer: first columns that none of its queries sees.
        before: number of columns that transformers is told were read before, where it makes the masks.
    """

    slots: tuple[int, int] = (0, 1)
    shown: int = 0
    columns: tuple[int, int] | None = None
    places: tuple[torch.Tensor, ...] = ()
    hidden: Mapping[str, int] = field(default_factory=dict)
    before: int = 0
    _copies: dict[torch.device, tuple[torch.Tensor, ...]] = field(default_factory=dict)

    def write(
        self,
        slots: tuple[int, int],
        places: tuple[torch.Tensor, ...],
        shown: int,
        hidden: Mapping[str, int],
    ) -> None:
        """Sets what a pass with places writes."""
        self.slots, self.shown, self.columns, self.before = slots, shown, None, 0
        self.places, self.hidden = places, hidden
        if self._copies:
            self._copies = {}

    def places_on(self, device: torch.device) -> tuple[torch.Tensor, ...]:
        """`places` on the device of a layer."""
        if self.places[0].device == device:
            return self.places
        if device not in self._copies:
            self._copies[device] = tuple(one.to(device, non_blocking=True) for one in self.places)
        return self._copies[device]


class SlabLayer(cache_utils.CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of a layer, float [slots, heads, columns, size] each; columns without a token are finite."""

    is_sliding = False

    def __init__(
        self,
        target: PassTarget,
        kind: str,
        slots: int,
        columns: int,
        prefix: tuple[torch.Tensor, ...] = (),
    ) -> None:
        """Memory is taken at the first pass, which knows heads and sizes.

        Args:
            target: of the slab.
            kind: of the layer, see `AttentionLayout`.
            slots: of the slab.
            columns: of each slot.
            prefix: keys and values of the columns before those, [1, heads, columns, size]; all slots have them in common.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._target, self._kind, self._slots, self._columns = target, kind, slots, columns
        self._prefix = prefix
        self.stores: tuple[torch.Tensor, ...] = ()

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Takes memory for keys and values of the forms of these, [rows, heads, tokens, size]."""
        self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
        # Zeros: what is masked is multiplied by 0, and 0 times NaN is NaN.
        self.stores = tuple(
            torch.zeros((self._slots, one.shape[1], self._columns, one.shape[3]), dtype=one.dtype, device=one.device)
            for one in (key_states, value_states)
        )  # fmt: skip

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes the tokens of a pass, [rows, heads, tokens, size]; keys and values that it looks at."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        target = self._target
        first, end = target.slots
        hidden, prefix = target.hidden.get(self._kind, 0), self._prefix
        begin = max(0, hidden - prefix[0].shape[2]) if prefix else hidden
        shown = []
        for i, (store, new) in enumerate(zip(self.stores, (key_states, value_states), strict=True)):
            if target.columns is not None:
                store[first:end, :, target.columns[0] : target.columns[1]] = new
            else:
                slots, columns = target.places_on(store.device)
                store[slots, :, columns] = new.transpose(1, 2)
            part = store[first:end, :, begin : target.shown]
            if prefix:
                common = prefix[i][:, :, hidden:]
                part = torch.cat([common.expand(end - first, -1, -1, -1), part], dim=2)
            shown.append(part)
        return shown[0], shown[1]

    def get_seq_length(self) -> int:
        """See `PassTarget.before`."""
        return self._target.before

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns of the mask that transformers makes, and the first of them."""
        return self._target.before + query_length, 0

    def get_max_length(self) -> int:
        """Columns of a slot, without the prefix."""
        return self._columns


class Slab:
    """Slots for sequences, each with the same number of columns.

    Attributes:
        slots: number of slots.
        columns: of each, with those of the prefix.
        base: the slab in whose slot 0 the prefix stands that all slots have in common; None: there is no prefix.
        prefix: columns of the prefix. They are stored once, and not here.
        cache: the cache that a transformers model takes.
        target: what the next pass writes.
        graphs: captured passes, by what tells them apart, see `FixedSteps`.
    """

    def __init__(
        self, layout: AttentionLayout, slots: int, columns: int, base: Slab | None = None, prefix: int = 0
    ) -> None:
        self.slots, self.columns, self.base, self.prefix = slots, columns, base, prefix
        self.target = PassTarget()
        self.graphs: dict[Any, Any] = {}
        self.cache: Any = DynamicCache()
        self.cache.layers = layers = []
        for i, kind in enumerate(layout.kinds):
            stores = () if base is None or kind is None else base.cache.layers[i].stores
            common = tuple(store[:1, :, :prefix] for store in stores)
            layers.append(
                EMPTY_LAYER()
                if kind is None
                else SlabLayer(self.target, kind, slots, columns - prefix, common)
            )
        self._by_device: dict[torch.device, LayerCaches] = {}

    @property
    def ready(self) -> bool:
        """Whether all layers have taken their memory."""
        return all(layer.is_initialized for layer in self.cache.layers if isinstance(layer, SlabLayer))

    @property
    def stores(self) -> list[torch.Tensor]:
        """Keys and values of all layers that have some, float [slots, heads, columns, size] each."""
        return [
            store for layer in self.cache.layers if isinstance(layer, SlabLayer) for store in layer.stores
        ]

    @property
    def bytes(self) -> int:
        """Of its memory, with the logits that its graphs write."""
        logits = [logits for _, _, logits in self.graphs.values()]
        return sum(one.numel() * one.element_size() for one in (*self.stores, *logits))

    def compact(self, source: torch.Tensor, start: torch.Tensor) -> None:
        """Moves columns of all slots, after a pass over all layers; see `LayerCaches.compact`."""
        for device, caches in self._caches().items():
            caches.compact(source.to(device, non_blocking=True), start.to(device, non_blocking=True))

    @torch.inference_mode()
    def take(self, other: Slab, copies: Sequence[tuple[int, int, int]], *, last: bool = False) -> None:
        """Copies columns of another slab with the same prefix, or of this one.

        Args:
            other: where from.
            copies: slot there, slot here, and the number of first columns. No slot is both written and read. More columns may be
                copied, which are of no text.
            last: the other slab gives up its memory, layer by layer.
        """
        assert other.base is self.base
        assert other.prefix == self.prefix
        runs = list(_runs([(source, target, count - self.prefix) for source, target, count in copies]))
        if not other.stores:
            return  # nothing was read behind the prefix
        if last:
            other._by_device = {}
        for mine, theirs in zip(self.cache.layers, other.cache.layers, strict=True):
            if not isinstance(theirs, SlabLayer) or not theirs.is_initialized:
                continue
            if not mine.is_initialized:
                mine.lazy_initialization(*theirs.stores)
            if last:
                for run in runs:
                    kernels.copy_kv_torch(theirs.stores, mine.stores, *run)
                theirs.stores, theirs.is_initialized = (), False
        if not last:
            given = other._caches()
            for device, caches in self._caches().items():
                for run in runs:
                    caches.copy_from(given[device], *run)

    def _caches(self) -> dict[torch.device, LayerCaches]:
        """The memory of all layers, by device, once they have taken it."""
        if not self._by_device:
            stores: dict[torch.device, list[torch.Tensor]] = {}
            for store in self.stores:
                stores.setdefault(store.device, []).append(store)
            self._by_device = {device: LayerCaches(layers) for device, layers in stores.items()}
        return self._by_device


def _runs(copies: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int, bool]]:
    """Copies that are made together: the first slots there and here, how many, the most columns, and whether all are of one slot.

    Slots of a run are neighbours, and have about as many columns.
    """
    same = len({source for source, _, _ in copies}) == 1

    def kind(numbered: tuple[int, tuple[int, int, int]]) -> tuple[int, int, int]:
        number, (source, target, count) = numbered
        return source if same else source - number, target - number, count.bit_length()

    for _, group in groupby(enumerate(copies), kind):
        run = [copy for _, copy in group]
        yield run[0][0], run[0][1], len(run), max(count for _, _, count in run), same
