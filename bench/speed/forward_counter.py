"""Counts a model's passes, and their time."""

from __future__ import annotations

import time
from typing import Any


class ForwardCounter:
    """While it is entered, passes of a torch module are counted.

    Attributes:
        passes: how many.
        seconds: that they took, by the clock on a CPU, by the device's own elsewhere.
    """

    def __init__(self, model: Any) -> None:
        """Watches nothing yet.

        Args:
            model: a torch module.
        """
        self.passes = 0
        self.seconds = 0.0
        self._model = model
        self._began: Any = None
        self._events: list[tuple[Any, Any]] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> ForwardCounter:
        self._hooks = [
            self._model.register_forward_pre_hook(self._before),
            self._model.register_forward_hook(self._after, prepend=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        if self._events:
            import torch

            torch.cuda.synchronize()
            self.seconds += sum(began.elapsed_time(ended) for began, ended in self._events) / 1e3
            self._events.clear()

    @property
    def _on_gpu(self) -> bool:
        return bool(next(self._model.parameters()).is_cuda)

    @property
    def _captures(self) -> bool:
        """The pass is being captured as a graph: nothing is computed, and no time can be taken."""
        import torch

        return self._on_gpu and torch.cuda.is_current_stream_capturing()

    def _event(self) -> Any:
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _before(self, module: Any, args: Any) -> None:
        if self._captures:
            return
        self._began = self._event() if self._on_gpu else time.perf_counter()

    def _after(self, module: Any, args: Any, outputs: Any) -> None:
        if self._captures:
            return
        self.passes += 1
        if self._on_gpu:
            self._events.append((self._began, self._event()))
        else:
            self.seconds += time.perf_counter() - self._began
