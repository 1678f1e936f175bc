"""Returns free heap memory of the process to the operating system.

A batch allocates many short-lived tensors of all sizes. glibc keeps the freed blocks between live ones, so the resident
size of a long-running process grows although its live memory does not.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

_SECONDS = 10.0
"""Seconds between two calls; a call takes milliseconds."""


class MallocTrimmer:
    """Calls ``malloc_trim`` at intervals. Not thread-safe.

    Args:
        trim: replaces glibc's ``malloc_trim``. With another C library the default does nothing.
    """

    def __init__(self, trim: Callable[[int], Any] | None = None) -> None:
        self._trim = _of_glibc() if trim is None else trim
        self._last = time.monotonic()

    def __call__(self) -> None:
        """Trims if the interval has passed since the last call."""
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
