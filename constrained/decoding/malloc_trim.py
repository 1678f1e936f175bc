"""Returns free heap memory of the process to the operating system.

A batch allocates many short-lived tensors of all sizes. glibc keeps the freed blocks between live ones, so the resident
size of a long-running process grows although its live memory does not.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

_GROWTH = 32 << 20
"""Bytes by which the resident size may grow between two calls; a call takes some 10 ms, reading the size some us."""


class MallocTrimmer:
    """Calls ``malloc_trim`` when the resident size of the process has grown by 32 MiB. Not thread-safe.

    Args:
        trim: replaces glibc's ``malloc_trim``. With another C library the default does nothing.
        resident_bytes: the resident size; None where the system does not say.
        pause: seconds between two looks at the size. A look lets other threads have the GIL several times.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        trim: Callable[[int], Any] | None = None,
        resident_bytes: Callable[[], int | None] | None = None,
        *,
        pause: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause = pause
        self._clock = clock
        self._looked = -pause
        self._trim = glibc_trim() if trim is None else trim
        self._resident_bytes = resident_size if resident_bytes is None else resident_bytes
        self._least = self._resident_bytes()  # since the last call

    def __call__(self) -> None:
        """Trims if the process has grown since the last call, or since it was smallest after it."""
        if self._trim is None or self._least is None:
            return
        now = self._clock()
        if now < self._looked + self._pause:
            return
        self._looked = now
        size = self._resident_bytes() or 0
        if size > self._least + _GROWTH:
            self._trim(0)
            size = self._resident_bytes() or 0
            self._least = size
        self._least = min(self._least, size)


def resident_size() -> int | None:
    """Resident bytes of this process; None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def glibc_trim() -> Callable[[int], Any] | None:
    """The function ``malloc_trim`` of glibc; None with another C library."""
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
