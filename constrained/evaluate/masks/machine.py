"""What a measurement was made on, and the memory of a process."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any


def describe() -> dict[str, Any]:
    """The machine and what runs on it, as JSON values.

    ``load`` is the machine's load average of the last minute: much above 0 before a run begins, and something else
    was measured along. ``clock_ns`` is the median cost of reading the clock; every timing holds one such cost.
    """
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "numpy": version("numpy"),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "clock_ns": _clock_ns(),
    }


def resident_bytes(process: int) -> int | None:
    """Resident memory of a process; None where the system does not say, or the process is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int | None:
    """The most resident memory this process has had; None where the system does not say."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _clock_ns() -> int:
    readings = [perf_counter_ns() for _ in range(2001)]
    steps = sorted(after - before for before, after in pairwise(readings))
    return steps[len(steps) // 2]
