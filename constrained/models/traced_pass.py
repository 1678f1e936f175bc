"""Forward passes of small models on a CPU without Python between their operations.

A pass of a small model takes little time to compute and much to call: transformers runs some thirty Python functions a layer. Here
the model is traced once (TorchScript), and later passes run the same operations from the recorded graph, without Python.
A trace holds for one course of the model's code, so it is made twice, from other tokens, lengths and masks; the two graphs must be
the same. Then its logits, keys and values must be those of the model itself, bit for bit, and it must be faster.

Thread safety: passes may run in several threads; one of them makes the trace.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from constrained.models.attention_masks import AttentionLayout, additive
from constrained.models.growing_layer import GrowingLayer

TRACE_AFTER = 1.0
"""Seconds of processor time in passes that a trace could have read: a trace takes about as long."""
LONGEST_PASS = 0.02
"""Seconds of a pass, on average, up to which a trace is made: where passes compute for long, Python does not matter."""
FASTER = 0.9
"""A trace takes at most this share of the model's own time."""
_TRIALS = ((1, 1, 7), (1, 1, 70), (1, 5, 40), (1, 17, 90), (1, 6, 0), (2, 3, 20), (3, 1, 20))
"""Rows, tokens and columns before them of the passes that are compared."""

_UNTIMED, _TIMED = 3, 9
"""Passes of each kind that are compared, the first of which optimise the graph; and those that are timed."""

Inputs = dict[str, Any]
"""Arguments of a model's forward pass."""

_log = logging.getLogger(__name__)


class TracedPasses:
    """The trace of one model, made when its passes have taken a while.

    Attributes:
        refusal: why passes are not read through a trace; None where they are, or will be.
    """

    def __init__(self, model: Any, layout: AttentionLayout, size: int) -> None:
        """Traces nothing yet.

        Args:
            model: of transformers, on a CPU.
            layout: of its layers.
            size: of its vocabulary.
        """
        self.refusal = _obstacle(model, layout)
        self._model, self._size = model, size
        self._layers = len(layout.kinds)
        self._spent, self._passes = 0.0, 0
        self._traced: _WithHooks | None = None
        self._parts: list[tuple[dict[str, Any], str, Any]] = []
        self._hooks: list[dict[int, Any]] = []
        self._empty = torch.empty(0)  # keys and values of a layer without columns
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        """Whether there is a trace that is used."""
        return self._traced is not None

    def read(self, inputs: Inputs, count: int | None) -> torch.Tensor | None:
        """Logits of a pass, [rows, count, V]; None if the model has to read it.

        Args:
            inputs: of the model; the cache among them is changed.
            count: number of last tokens whose logits are wanted; None: of all.
        """
        if self._traced is None or not _fits(inputs):
            return None
        if self._changed():
            self._traced, self.refusal = None, "the model was changed after its trace was made"
            return None
        return self._read(self._traced, inputs, count)

    def _read(self, trace: Callable[..., Any], inputs: Inputs, count: int | None) -> torch.Tensor:
        ids, layers = inputs["input_ids"], inputs["past_key_values"].layers
        rows, width = ids.shape
        mask = inputs.get("attention_mask")
        if mask is None:
            mask = torch.zeros(1, 1, 1, layers[0].get_seq_length() + 1, dtype=self._empty.dtype)
        empty = self._empty.expand(rows, -1, -1, -1)
        held = [
            part
            for layer in layers
            for part in ((layer.keys, layer.values) if layer.is_initialized else (empty, empty))
        ]
        logits: torch.Tensor = trace(
            input_ids=ids,
            position_ids=inputs["position_ids"],
            attention_mask=mask,
            logits_to_keep=torch.arange(max(0, width - (count or width)), width),
            past_key_values=inputs["past_key_values"],
            columns=held,
        ).logits
        return logits

    def spent(self, inputs: Inputs, seconds: float) -> None:
        """Tells how much processor time the model took for a pass; makes the trace when passes have taken a while."""
        if self.refusal is not None or self._traced is not None or not _fits(inputs):
            return
        if torch._C._len_torch_dispatch_stack():
            return  # somebody watches the operations of this pass: a trace would be made of what the watcher does
        self._spent += seconds
        self._passes += 1
        if self._spent >= TRACE_AFTER and self._spent <= LONGEST_PASS * self._passes:
            self.make()

    def make(self) -> None:
        """Makes the trace and compares it with the model; `refusal` says why it is not used."""
        if self._traced is not None or self.refusal is not None or not self._lock.acquire(blocking=False):
            return
        try:
            with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
                # Of TorchScript's age, and of what a trace may miss: that is what the trials are for.
                warnings.simplefilter("ignore")
                self.refusal = self._make()
        except Exception as failure:  # whatever code a model brings along, and whatever torch makes of it
            self.refusal = f"{type(failure).__name__}: {(str(failure).splitlines() or [''])[0][:120]}"
            _log.debug("no trace was made", exc_info=True)
        finally:
            self._lock.release()

    def _make(self) -> str | None:
        """Why the trace cannot be used; None if it can."""
        layers = self._pass(self._model_alone, 1, 4, 0).cache.layers
        first = layers[0].keys
        if any(part.shape != first.shape for layer in layers for part in (layer.keys, layer.values)):
            return "its layers have keys of several sizes"
        self._empty = first[:, :, :0]
        flat = _Flat(self._model)
        traces = [
            _trace(flat, self._arguments(rows, width, columns))
            for rows, width, columns in ((1, 5, 9), (2, 3, 14))
        ]
        if _graph(traces[0]) != _graph(traces[1]):
            return "it runs other code for other tokens"
        modules = list(self._model.modules())
        self._hooks = [hooks for one in modules[1:] for hooks in (one._forward_hooks, one._forward_pre_hooks)]
        self._parts = [
            (table, name, part)
            for one in modules
            for table in (one._parameters, one._buffers, one._modules)
            for name, part in table.items()
        ]
        if self._changed():
            return "its layers have hooks"
        made = _WithHooks(self._model, torch.jit.freeze(traces[0], optimize_numerics=False))
        runs = (self._model_alone, lambda inputs: self._read(made.forward, inputs, None))
        for trial in _TRIALS:
            for _ in range(_UNTIMED):
                if not _equal(*(self._pass(run, *trial) for run in runs)):
                    return "its logits are not those of the model, bit for bit"
        times = [[self._pass(run, 1, 5, 40).seconds for run in runs] for _ in range(_TIMED)]
        own, other = (median(column) for column in zip(*times, strict=True))
        if other > FASTER * own:
            return f"it is not faster ({other / own:.2f} of the time)"
        self._traced = made
        return None

    def _changed(self) -> bool:
        """Whether the trace may be out of date."""
        return (
            self._model.training
            or any(self._hooks)
            or any(table.get(name) is not part for table, name, part in self._parts)
        )

    def _cache(self) -> Any:
        cache: Any = DynamicCache()
        cache.layers = [GrowingLayer() for _ in range(self._layers)]
        return cache

    def _model_alone(self, inputs: Inputs) -> torch.Tensor:
        logits: torch.Tensor = self._model.forward(**inputs, use_cache=True).logits
        return logits

    def _pass(self, run: Callable[[Inputs], torch.Tensor], rows: int, width: int, columns: int) -> _Pass:
        """A pass over some random tokens behind columns that the model has read."""
        cache = self._cache()
        if columns:
            self._model_alone(self._inputs(rows, columns, 0, cache))
        inputs = self._inputs(rows, width, columns, cache)
        began = time.thread_time()
        logits = run(inputs)
        return _Pass(logits, cache, time.thread_time() - began)

    def _inputs(self, rows: int, width: int, columns: int, cache: Any) -> Inputs:
        """Arguments of a pass over random tokens, of which each sees about half of the tokens before it."""
        draws = torch.Generator().manual_seed(rows + width + columns)
        ids = torch.randint(1, self._size, (rows, width), generator=draws)
        seen = torch.rand(rows, width, width, generator=draws) < 0.5
        seen = seen.tril() | torch.eye(width, dtype=torch.bool)
        before = torch.ones(rows, width, columns, dtype=torch.bool)
        mask = None if rows == width == 1 else additive(torch.cat((before, seen), dim=2))
        depths = seen.sum(dim=2) - 1
        return {
            "input_ids": ids, "position_ids": columns + depths, "attention_mask": mask, "past_key_values": cache,
        }  # fmt: skip

    def _arguments(self, rows: int, width: int, columns: int) -> tuple[Any, ...]:
        """Arguments of `_Flat` for such a pass."""
        cache = self._cache()
        self._model_alone(self._inputs(rows, columns, 0, cache))
        made = self._inputs(rows, width, columns, cache)
        held = [part for layer in cache.layers for part in (layer.keys, layer.values)]
        kept = torch.arange(1, width)
        return made["input_ids"], made["position_ids"], made["attention_mask"], kept, *held


class _Pass(NamedTuple):
    """A pass of a trial: logits [rows, tokens, V], the cache after it, and seconds of processor time."""

    logits: torch.Tensor
    cache: Any
    seconds: float


class _Recorded(DynamicLayer):  # type: ignore[no-untyped-call]
    """A layer of a cache that keeps apart what a pass adds to it."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.new: tuple[torch.Tensor, ...] = ()

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        self.new = key_states, value_states
        self.keys = torch.cat((self.keys, key_states), dim=2)
        self.values = torch.cat((self.values, value_states), dim=2)
        return self.keys, self.values


class _Flat(torch.nn.Module):
    """A model as a function of tensors: logits, and the keys and values that each layer adds."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Any, positions: Any, mask: Any, kept: Any, *columns: Any
    ) -> tuple[torch.Tensor, ...]:
        cache: Any = DynamicCache()
        cache.layers = [_Recorded(*pair) for pair in zip(columns[::2], columns[1::2], strict=True)]
        # Not called as a module: its hooks are no part of the trace.
        made = self.model.forward(
            input_ids=ids, position_ids=positions, attention_mask=mask, past_key_values=cache, use_cache=True,
            logits_to_keep=kept,
        )  # fmt: skip
        return made.logits, *(part for layer in cache.layers for part in layer.new)


class _Outputs:
    """What hooks of a model see of a pass.

    Attributes:
        logits: float [rows, tokens, V].
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


class _WithHooks(torch.nn.Module):
    """A trace that calls the hooks of its model, as they are at that time."""

    def __init__(self, model: Any, trace: Any) -> None:
        super().__init__()
        self.__dict__["_trace"] = trace  # no submodule: its own hooks are not asked for
        self.__dict__.update({name: model.__dict__[name] for name in self.__dict__ if "forward" in name})

    def forward(
        self,
        input_ids: Any,
        position_ids: Any,
        attention_mask: Any,
        logits_to_keep: Any,
        past_key_values: Any,
        columns: list[Any],
    ) -> _Outputs:
        logits, *added = self.__dict__["_trace"](
            input_ids, position_ids, attention_mask, logits_to_keep, *columns
        )
        for i, layer in enumerate(past_key_values.layers):
            layer.append(added[2 * i], added[2 * i + 1])
        return _Outputs(logits)


def _obstacle(model: Any, layout: AttentionLayout) -> str | None:
    """Why a model is not traced, by its configuration."""
    if layout.bounds or len(layout.windows) != 1 or None in layout.kinds:
        return "its layers see or keep different columns"
    if any("expert" in name for name in model.config.to_dict()):
        return "its tokens choose experts"
    if len({parameter.device for parameter in model.parameters()}) != 1 or hasattr(model, "_hf_hook"):
        return "its layers are on several devices"
    return None


def _fits(inputs: Inputs) -> bool:
    """Whether a trace can read a pass: with a mask or of one token, and over a cache as it is made here."""
    cache, mask = inputs.get("past_key_values"), inputs.get("attention_mask")
    return (
        type(cache) is DynamicCache
        and "position_ids" in inputs
        and "tree" not in inputs
        and (
            mask.ndim == 4
            if isinstance(mask, torch.Tensor)
            else mask is None and inputs["input_ids"].shape == (1, 1)
        )
        and all(type(layer) is GrowingLayer for layer in cache.layers)
    )


def _trace(flat: _Flat, arguments: tuple[Any, ...]) -> Any:
    return torch.jit.trace(flat.eval(), arguments, check_trace=False, strict=False)  # type: ignore[no-untyped-call]


def _graph(trace: Any) -> str:
    """The operations of a trace, without the shapes that they had."""
    graph = trace.inlined_graph.copy()
    torch._C._jit_pass_erase_shape_information(graph)
    return re.sub(r"___torch_mangle_\d+\.", "", str(graph))  # each trace gives its classes names of their own


def _equal(one: _Pass, other: _Pass) -> bool:
    """Whether the logits of two passes, and what they added to their caches, are equal."""
    parts = zip(one.cache.layers, other.cache.layers, strict=True)
    return torch.equal(one.logits, other.logits) and all(
        torch.equal(mine.keys, theirs.keys) and torch.equal(mine.values, theirs.values)
        for mine, theirs in parts
    )
