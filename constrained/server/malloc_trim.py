"""Memory that is free in the process goes back to the system.

The caches of a batch are many tensors that live for moments, in every size. glibc keeps what they leave behind, in pieces
among what lives on, and a process seems to grow for hours although it holds no more than before.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

_SECONDS = 10.0
"""Between two times: each takes milliseconds."""


class MallocTrimmer:
    """Gives free memory back, now and then. For one thread.

    Args:
        trim: does it; by default glibc's, and nothing where there is another library.
    """

    def __init__(self, trim: Callable[[int], Any] | None = None) -> None:
        self._trim = _of_glibc() if trim is None else trim
        self._last = time.monotonic()

    def __call__(self) -> None:
        """Does it if the last time was some seconds ago."""
        now = time.monotonic()
        if self._trim is not None and now - self._last >= _SECONDS:
            self._last = now
            self._trim(0)


def _of_glibc() -> Callable[[int], Any] | None:
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
