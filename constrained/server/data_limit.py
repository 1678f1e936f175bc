"""The limit of a process's memory that the system holds to: an allocation beyond it fails, before anything is written there.

What is resident is looked at a few times a second, and one allocation can be larger than all that was left: the system then ends
the process. With a limit it is a `MemoryError`, and so an error of the request that wanted it.
"""

from __future__ import annotations

import contextlib

_SLACK = 512 << 20
"""Bytes of writable memory that may be there beside what is resident: stacks of threads, and what nobody has written to yet."""


class DataLimit:
    """Lets allocations of this process fail that would take it over a size; Linux only, elsewhere it does nothing.

    The limit is that of private writable memory (``RLIMIT_DATA``): weights that are mapped from a file, and what a GPU's driver reserves, do
    not count.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None

    def set(self, left: int) -> None:
        """Lets the process grow by so many bytes, and by some hundred MiB that are not written to.

        Args:
            left: what it may still use up.
        """
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
