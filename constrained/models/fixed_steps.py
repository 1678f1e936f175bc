"""Passes of a few fixed sizes over slabs, which can be compiled, and captured as graphs of a CUDA device.

Lengths, positions and trees are data: a pass of a size launches the same kernels at every length, and waits for nothing.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from constrained.models.attention_masks import AttentionLayout, ancestor_words
from constrained.models.cache import ForwardFunction
from constrained.models.slab import Slab
from constrained.models.tree_pass import tree_pass
from constrained.models.upload import upload

SIZES = (1, 4, 8, 16, 32, 64)
"""Tokens of a pass, for each slot. Larger trees are padded to multiples of the last one."""
CHUNKS = (256, 64)
"""Tokens of a pass over a part of a prompt that is not its end."""
_COLUMNS = 256
"""The least columns of a slab; others have twice as many, and so on: passes differ by the columns of their slab."""
_ROOMY = 1024
"""The least columns where attention looks at the text alone, if the memory of such a slab is small: a text that grows needs few passes
of other columns."""
_ROOMY_SHARE = 1 / 128
"""Of the memory that a CUDA device has left at the first pass: what is small."""
_WARM_COLUMNS = 4096
"""Columns up to which passes are made ready before they are used."""
_KEPT = 4
"""Slabs that are kept for later caches, with their graphs, in any case."""
_KEPT_SHARE = 1 / 4
"""Of the memory that a CUDA device has left: more slabs are kept while all of them, and a new one, take no more. A batch that grows and shrinks
uses many kinds of them, and graphs that are captured again hold everybody up."""


class FixedSteps:
    """The passes of one model.

    Attributes:
        supports_tree_attention: see `tree_pass`.
        masked: see `tree_pass`.
        no_compiling: why passes are not compiled although that was asked for; None where they are, or it was not.
        no_graphs: why passes are not captured on a CUDA device; None where they are, or will be.
    """

    def __init__(
        self,
        run: ForwardFunction,
        layout: AttentionLayout,
        *,
        compiles: bool,
        supports_tree_attention: bool = False,
        masked: bool = True,
    ) -> None:
        """Nothing is compiled yet.

        Args:
            run: the model.
            layout: of the model.
            compiles: compile each size by `torch.compile` at its first use, which takes seconds to minutes; not for parts of
                a prompt that are not its end.
            supports_tree_attention: see `tree_pass`.
            masked: see `tree_pass`.
        """
        self.supports_tree_attention, self.masked = supports_tree_attention, masked
        self.no_compiling: str | None = None
        self.no_graphs: str | None = None
        self._run, self._layout = run, layout
        self._compiled = torch.compile(tree_pass, dynamic=False) if compiles else None
        self._free: dict[Slab, int] = {}  # with their bytes, the longest kept one first
        self._lock = threading.RLock()  # a cache that is collected meanwhile gives its slab back
        self._memory: _GraphMemory | None = None
        self._device: torch.device | None = None  # of CUDA, once a slab has taken its memory
        self._place = 0  # bytes
        self._roomy = 0  # places of a slab that is small

    def size(self, tokens: int) -> int:
        """Tokens of the pass that reads this many."""
        return next((size for size in SIZES if size >= tokens), -(-tokens // SIZES[-1]) * SIZES[-1])

    def slab(self, slots: int, columns: int) -> Slab:
        """A slab with at least so many slots and columns, rather one with graphs; tokens of earlier caches may be in it."""
        slots, columns = self._shape(slots, columns)
        with self._lock:
            found = self._kept(slots, columns)
            if found:
                return self._given(max(found, key=lambda slab: len(slab.graphs)))
            self._trim(slots * columns)
        return Slab(self._layout, slots, columns)

    def captured(self, slab: Slab) -> Slab | None:
        """A kept slab of the same form whose passes have been captured; None if there is none, or they are in this one."""
        with self._lock:
            found = [one for one in self._kept(slab.slots, slab.columns) if one.graphs]
            if slab.graphs or not found:
                return None
            return self._given(max(found, key=lambda one: len(one.graphs)))

    def give_back(self, slab: Slab) -> None:
        """Keeps a slab that no cache uses any more: graphs are bound to its memory. The longest kept ones go first."""
        with self._lock:
            self._look_at(slab)
            self._free[slab] = slab.bytes
            self._trim()

    @torch.inference_mode()
    def warm_up(self, device: torch.device, rows: int, drafted: int, context: int | None) -> None:
        """Captures the passes of batches, while there is room for their slabs; does nothing elsewhere than on a CUDA device.

        Args:
            device: of the model.
            rows: the largest batch.
            drafted: the largest batch in which tokens are drafted.
            context: positions that the model reads; None: any number.
        """
        if device.type != "cuda" or not torch.cuda.is_available():
            return
        steps, trees = [(SIZES[0], True)], [(size, True) for size in SIZES]
        prompts = [(size, False) for size in CHUNKS]
        self._warm_up(device, 1, _COLUMNS, steps)  # what is known then decides on the shapes of slabs
        columns = _COLUMNS
        while columns <= min(_WARM_COLUMNS, context or _WARM_COLUMNS):
            for slots in (1 << power for power in range((rows - 1).bit_length() + 1)):
                if (slots, columns) == self._shape(slots, columns):
                    if not self._has_room(slots * columns):
                        return
                    passes = trees + prompts if slots == 1 else trees if slots <= drafted else steps
                    self._warm_up(device, slots, columns, passes)
            columns *= 2

    def _warm_up(
        self, device: torch.device, slots: int, columns: int, passes: Sequence[tuple[int, bool]]
    ) -> None:
        """Captures the passes of a slab, by their tokens and whether all logits are wanted; their tokens are of no text."""
        slab = self.slab(slots, columns)
        for size, every in passes:
            depths, words = ancestor_words([range(-1, size - 1)] * slots, size)
            ids, lengths = np.zeros(depths.shape, dtype=np.int64), np.zeros(slots, dtype=np.int64)
            for _ in range(1 if slab.ready else 2):  # the first pass takes the memory, and is not captured
                self(slab, *upload(device, ids, lengths, depths, words), every=every)
        if slots > 1:  # compiles the kernel that copies what arrives
            slab.take(slab, [(0, 1, 1)])
        self.give_back(slab)

    def _kept(self, slots: int, columns: int) -> list[Slab]:
        return [slab for slab in self._free if (slab.slots, slab.columns) == (slots, columns)]

    def _given(self, slab: Slab) -> Slab:
        del self._free[slab]
        return slab

    def _shape(self, slots: int, columns: int) -> tuple[int, int]:
        """Slots and columns of a slab with at least so many."""
        slots = 1 << (slots - 1).bit_length()
        least = _ROOMY if slots * _ROOMY <= self._roomy else _COLUMNS
        return slots, max(least, 1 << (columns - 1).bit_length())

    def _look_at(self, slab: Slab) -> None:
        """Finds out what slabs take, at the first one that has taken its memory on a CUDA device."""
        if self._device is None and slab.ready and slab.stores[0].is_cuda and torch.cuda.is_available():
            self._device = slab.stores[0].device
            taken = sum(store.numel() * store.element_size() for store in slab.stores)
            self._place = taken // (slab.slots * slab.columns)
            self._roomy = int(_ROOMY_SHARE * self._left / self._place) if self.supports_tree_attention else 0

    def _trim(self, places: int = 0) -> None:
        """Gives up slabs until there is room for the others, and for a new one with so many places (slots times columns)."""
        while len(self._free) > _KEPT and not self._has_room(places):
            del self._free[next(iter(self._free))]

    def _has_room(self, places: int) -> bool:
        """Whether the device has room for all slabs that are kept, and for a new one."""
        if self._device is None:
            return False
        return sum(self._free.values()) + places * self._place <= _KEPT_SHARE * self._left

    @property
    def _left(self) -> int:
        """Bytes that the device has left, with those that torch has taken and does not use."""
        unused = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        return torch.cuda.mem_get_info(self._device)[0] + unused

    def __call__(
        self,
        slab: Slab,
        ids: torch.Tensor,
        lengths: torch.Tensor,
        depths: torch.Tensor,
        words: torch.Tensor,
        *positions: torch.Tensor,
        every: bool,
    ) -> torch.Tensor:
        """See `tree_pass`; all slots and columns take part, and there are positions where they are not the columns."""
        inputs = (ids, lengths, depths, words, *positions)
        if not slab.ready or self.no_graphs is not None or not ids.is_cuda or not torch.cuda.is_available():
            return self._pass(slab, inputs, every)
        self._look_at(slab)
        key = tuple(ids.shape), every, bool(positions)
        if key not in slab.graphs:
            try:
                slab.graphs[key] = self._captured(slab, inputs, every)
            except RuntimeError as failure:  # of CUDA: no memory, or an operation that cannot be captured
                self.no_graphs = f"a pass could not be captured: {_first_line(failure)}"
                warnings.warn(f"passes are launched one by one: {self.no_graphs}", stacklevel=2)
                return self._pass(slab, inputs, every)
        graph, given, logits = slab.graphs[key]
        assert self._memory is not None
        with self._memory.turn():
            for mine, new in zip(given, inputs, strict=True):
                mine.copy_(new)
            graph.replay()
            copied: torch.Tensor = logits.clone()  # the next pass overwrites what the graph has written
        return copied

    def _pass(self, slab: Slab, inputs: tuple[torch.Tensor, ...], every: bool) -> torch.Tensor:
        given: tuple[Any, ...] = (self._run, self._layout, slab, 0, slab.columns, *inputs)
        how: dict[str, Any] = {
            "every": every,
            "supports_tree_attention": self.supports_tree_attention,
            "masked": self.masked,
        }
        # Layers take their memory outside of what is compiled; parts of a prompt are few, and would be other passes to compile.
        if self._compiled is not None and slab.ready and every:
            try:
                with torch._dynamo.config.patch(recompile_limit=256, accumulated_recompile_limit=1024):
                    result: torch.Tensor = self._compiled(*given, **how)
                    return result
            except Exception as failure:  # whatever the compiler, or a model's code under it, raises
                self._compiled = None
                self.no_compiling = f"torch.compile failed: {_first_line(failure)}"
                warnings.warn(f"passes are not compiled: {self.no_compiling}", stacklevel=2)
        return tree_pass(*given, **how)

    def _captured(self, slab: Slab, inputs: tuple[torch.Tensor, ...], every: bool) -> tuple[Any, Any, Any]:
        """A graph, the tensors that it reads, and the logits that it writes."""
        given = tuple(one.clone() for one in inputs)
        with self._lock:
            memory = self._memory = self._memory or _GraphMemory(inputs[0].device)
        current, stream = torch.cuda.current_stream(inputs[0].device), memory.warm_up
        with memory.turn():
            stream.wait_stream(current)
            with torch.cuda.stream(stream):  # compiles, perhaps twice, and lets libraries take their memory
                for _ in range(1 if self._compiled is None else 2):
                    self._pass(slab, given, every)
            current.wait_stream(stream)
            with memory.capture() as graph:
                logits = self._pass(slab, given, every)
        return graph, given, logits


class _GraphMemory:
    """The memory of all graphs of a model. It is shared, so they are replayed one after the other.

    cuBLAS keeps a workspace for each stream, in the memory of the first graph that was captured there, and graphs write to it at
    every replay. Torch's own graph trees (``torch.compile(mode="reduce-overhead")``) drop all workspaces. So this stream is
    of no other graphs, and the first graph is kept, which keeps the memory.

    Attributes:
        warm_up: the stream of passes that are not captured.
    """

    def __init__(self, device: torch.device) -> None:
        # Streams of one priority are given out in turn: those of high priority are hardly used by others.
        self.warm_up: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream: Any = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._first: Any = None
        self._lock = threading.RLock()
        self._device = device
        self._last: Any = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The graphs are used by this thread alone, and on its stream, after what others asked for."""
        with self._lock:
            stream = torch.cuda.current_stream(self._device)
            if self._last is not None and stream != self._last:
                stream.wait_stream(self._last)
            self._last = stream
            yield

    @contextmanager
    def capture(self) -> Iterator[Any]:
        """A graph that captures what is launched meanwhile."""
        graph = torch.cuda.CUDAGraph()
        # Calls of other threads, as those that draw tokens, go on.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            yield graph
        self._first = self._first or graph


def _first_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:120]}"
