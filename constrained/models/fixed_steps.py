"""Passes of a few fixed sizes over slabs, which can be compiled, and captured as graphs of a CUDA device.

Lengths, positions and trees are data: a pass of a size launches the same kernels at every length, and waits for nothing.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch

from constrained.models.attention_masks import AttentionLayout
from constrained.models.cache import ForwardFunction
from constrained.models.slab import Slab
from constrained.models.tree_pass import tree_pass

SIZES = (1, 4, 8, 16, 32, 64)
"""Tokens of a pass, for each slot. Larger trees are padded to multiples of the last one."""
CHUNKS = (256, 64)
"""Tokens of a pass over a part of a prompt that is not its end."""
_COLUMNS = 256
"""The least columns of a slab; others have twice as many, and so on: passes differ by the columns of their slab."""
_KEPT = 4
"""Slabs that are kept for later caches, with their graphs."""


class FixedSteps:
    """The passes of one model.

    Attributes:
        attends: the model's attention takes trees.
        no_compiling: why passes are not compiled although that was asked for; None where they are, or it was not.
        no_graphs: why passes are not captured on a CUDA device; None where they are, or will be.
    """

    def __init__(
        self, run: ForwardFunction, layout: AttentionLayout, *, compiles: bool, attends: bool = False
    ) -> None:
        """Nothing is compiled yet.

        Args:
            run: the model.
            layout: of the model.
            compiles: compile each size by `torch.compile` at its first use, which takes seconds to minutes.
            attends: see `tree_pass`.
        """
        self.attends = attends
        self.no_compiling: str | None = None
        self.no_graphs: str | None = None
        self._run, self._layout = run, layout
        self._compiled = torch.compile(tree_pass, dynamic=False) if compiles else None
        self._free: list[Slab] = []
        self._lock = threading.Lock()

    def size(self, tokens: int) -> int:
        """Tokens of the pass that reads this many."""
        return next((size for size in SIZES if size >= tokens), -(-tokens // SIZES[-1]) * SIZES[-1])

    def slab(self, slots: int, columns: int) -> Slab:
        """A slab with at least so many slots and columns; tokens of earlier caches may be in it."""
        slots = 1 << (slots - 1).bit_length()
        columns = max(_COLUMNS, 1 << (columns - 1).bit_length())
        with self._lock:
            for i, slab in enumerate(self._free):
                if (slab.slots, slab.columns) == (slots, columns):
                    return self._free.pop(i)
        return Slab(self._layout, slots, columns)

    def give_back(self, slab: Slab) -> None:
        """Keeps a slab that no cache uses any more: graphs are bound to its memory."""
        with self._lock:
            self._free.append(slab)
            del self._free[:-_KEPT]

    def __call__(
        self,
        slab: Slab,
        ids: torch.Tensor,
        lengths: torch.Tensor,
        depths: torch.Tensor,
        words: torch.Tensor,
        *,
        every: bool,
    ) -> torch.Tensor:
        """See `tree_pass`; all slots and columns take part."""
        inputs = (ids, lengths, depths, words)
        if not slab.ready or self.no_graphs is not None or not ids.is_cuda or not torch.cuda.is_available():
            return self._pass(slab, inputs, every)
        key = tuple(ids.shape), every
        if key not in slab.graphs:
            try:
                slab.graphs[key] = self._captured(slab, inputs, every)
            except RuntimeError as failure:  # of CUDA: no memory, or an operation that cannot be captured
                self.no_graphs = f"a pass could not be captured: {_first_line(failure)}"
                warnings.warn(f"passes are launched one by one: {self.no_graphs}", stacklevel=2)
                return self._pass(slab, inputs, every)
        graph, given, logits = slab.graphs[key]
        for mine, new in zip(given, inputs, strict=True):
            mine.copy_(new)
        graph.replay()
        copied: torch.Tensor = logits.clone()  # the next pass overwrites what the graph has written
        return copied

    def _pass(self, slab: Slab, inputs: tuple[torch.Tensor, ...], every: bool) -> torch.Tensor:
        if self._compiled is not None and slab.ready:  # layers take their memory outside of what is compiled
            try:
                with torch._dynamo.config.patch(recompile_limit=256, accumulated_recompile_limit=1024):
                    result: torch.Tensor = self._compiled(
                        self._run,
                        self._layout,
                        slab,
                        0,
                        slab.columns,
                        *inputs,
                        every=every,
                        attends=self.attends,
                    )
                    return result
            except Exception as failure:  # whatever the compiler, or a model's code under it, raises
                self._compiled = None
                self.no_compiling = f"torch.compile failed: {_first_line(failure)}"
                warnings.warn(f"passes are not compiled: {self.no_compiling}", stacklevel=2)
        return tree_pass(
            self._run, self._layout, slab, 0, slab.columns, *inputs, every=every, attends=self.attends
        )

    def _captured(self, slab: Slab, inputs: tuple[torch.Tensor, ...], every: bool) -> tuple[Any, Any, Any]:
        """A graph, the tensors that it reads, and the logits that it writes."""
        given = tuple(one.clone() for one in inputs)
        stream: Any = torch.cuda.Stream(inputs[0].device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(inputs[0].device))
        with torch.cuda.stream(stream):  # compiles, and lets libraries take their memory
            for _ in range(2):
                self._pass(slab, given, every)
        torch.cuda.current_stream(inputs[0].device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Calls of other threads, as those that draw tokens, go on meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            logits = self._pass(slab, given, every)
        return graph, given, logits


def _first_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:120]}"
