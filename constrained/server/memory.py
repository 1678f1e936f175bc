"""How much memory there is: what the process may use, and what happens before it runs out.

A thread looks a few times a second. While there is little, caches are emptied, which breaks no running text, and new requests
are refused; while there is hardly any, running requests end with an error, one after the other, instead of the process.
One allocation can be larger than all that was left: with `max_memory` the system lets it fail (`DataLimit`).
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from pathlib import Path

from constrained.automaton import cache
from constrained.decoding.malloc_trim import glibc_trim, resident_size
from constrained.models.memory import free_main_memory
from constrained.server.settings import ServerSettings

_CGROUP = Path("/sys/fs/cgroup")

_PAUSE = 0.25
"""Seconds between two looks."""

_SLACK = 512 << 20
"""Bytes of headroom for pages that are reserved and not written to: stacks of threads, for instance."""


class MemoryWatch:
    """Looks at memory in a thread of its own.

    Attributes:
        low: new requests are to be refused.
        free: bytes that the process may still use; None if that is unknown.
        resident: bytes of the process; None if that is unknown.
        automata: bytes of the cached automata.

    Args:
        settings: limits.
        shed: ends a running request.
    """

    def __init__(self, settings: ServerSettings, shed: Callable[[], None] = lambda: None) -> None:
        self.low = False
        self.free: int | None = None
        self.resident: int | None = None
        self.automata = 0
        self._settings = settings
        self._shed = shed
        self._trim = glibc_trim()
        self._limit = DataLimit()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        """Starts the thread. With `max_memory`, allocations fail from now on that would take the process far beyond it."""
        self.look()
        if self._settings.max_memory is not None and self.resident is not None:
            self._limit.set(self._settings.max_memory - self.resident)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and the limit of allocations."""
        self._stopped.set()
        self._limit.lift()

    def look(self) -> None:
        """Frees memory if there is little, and says whether there still is."""
        self.automata = cache.fit()
        least = self._settings.min_free_memory
        left = self._left()
        if left < least:
            cache.clear()
            gc.collect()
            if self._trim is not None:
                self._trim(0)
            left = self._left()
        self.low = left < least
        if left < least / 2:
            self._shed()

    def _left(self) -> float:
        """Bytes until memory runs out: that of the system, of the control group, or what `max_memory` grants."""
        self.free, self.resident = free_bytes(), resident_size()
        left = float("inf") if self.free is None else float(self.free)
        if self._settings.max_memory is not None and self.resident is not None:
            left = min(left, self._settings.max_memory - self.resident)
        return left

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE):
            self.look()


def free_bytes() -> int | None:
    """Bytes that the process may still use: of the system, or of its control group; None if neither says."""
    found = [size for size in (free_main_memory(), _cgroup(_CGROUP)) if size is not None]
    return min(found, default=None)


def _cgroup(folder: Path) -> int | None:
    """What a control group (version 2) leaves, without counting the files that it caches."""
    try:
        most = int((folder / "memory.max").read_text())
        used = int((folder / "memory.current").read_text())
        lines = (folder / "memory.stat").read_text().splitlines()
        files = {name: int(size) for name, size in (line.split() for line in lines)}
    except (OSError, ValueError):  # none, another version, or no limit ("max")
        return None
    return most - used + files.get("inactive_file", 0)


class DataLimit:
    """Lets allocations of this process fail that would take it over a size; Linux only, elsewhere it does nothing.

    The limit is that of private writable memory (``RLIMIT_DATA``): weights that are mapped from a file, and what a GPU's driver reserves, do
    not count.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def set(self, left: int) -> None:
        """Lets the process grow by `left` bytes, and by `_SLACK` that are not written to."""
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            before = resource.getrlimit(resource.RLIMIT_DATA)
            limit = _data_size() + max(0, left) + _SLACK
            if before[0] == resource.RLIM_INFINITY or limit < before[0]:
                resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
                self._before = self._before or before

    def lift(self) -> None:
        """Restores the limit that there was."""
        if self._before is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, self._before)
            self._before = None


def _data_size() -> int:
    """Bytes of private writable memory.

    Raises:
        ValueError: the system does not say.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    raise ValueError("no VmData in /proc/self/status")
