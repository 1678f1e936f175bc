"""Facts about the machine of a run, and the memory of processes."""

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
    """The machine as JSON values.

    ``load`` is the load average of the last minute; much above 0 before a run, and other programs disturb the
    measurement. ``clock_ns`` is the median cost of reading the clock; every time includes it once.
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


def summarise_machine(machine: dict[str, Any]) -> str:
    """One line for a report, out of what `describe` returned."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}; load before the run {machine['load']}{_warning(machine)}"
    )


def note_load(machine: dict[str, Any]) -> None:
    """Keeps the highest load average of a run in what `describe` returned, as ``highest_load``."""
    if machine["load"] is not None:
        seen = max(machine["load"], machine.get("highest_load", 0.0), os.getloadavg()[0])
        machine["highest_load"] = round(seen, 2)


def _warning(machine: dict[str, Any]) -> str:
    load, cores = machine.get("highest_load", machine["load"]), machine["cores"]
    highest = f", {load} at its highest" if "highest_load" in machine else ""
    over = load is not None and cores is not None and load > cores
    return f"{highest}: times not to be trusted: load over cores" if over else highest


def resident_bytes(process: int) -> int | None:
    """Resident memory of a process; None if unknown, or if the process has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int | None:
    """Peak of the resident memory of this process; None if unknown."""
    try:
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _processor() -> str:
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or "unknown"


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _clock_ns() -> int:
    readings = [perf_counter_ns() for _ in range(2001)]
    steps = sorted(after - before for before, after in pairwise(readings))
    return steps[len(steps) // 2]
