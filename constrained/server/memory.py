"""How much memory is left, so that requests are refused before there is none."""

from __future__ import annotations

from pathlib import Path

from constrained.automaton import cache

_CGROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Bytes that the process may still use: of the system, or of its control group; None if neither says."""
    found = [size for size in (_system(), _cgroup(_CGROUP)) if size is not None]
    return min(found, default=None)


def is_low(least: int) -> bool:
    """Whether less than `least` bytes are free, also without the cached automata that no request uses."""
    free = free_bytes()
    if free is None or free >= least:
        return False
    cache.clear()
    free = free_bytes()
    return free is not None and free < least


def _system() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


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
