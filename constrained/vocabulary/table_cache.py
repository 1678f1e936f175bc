"""Native tables of vocabularies as files, which processes map into memory and share.

The name of a file contains the fingerprint of the vocabulary and the version of the layout. A file has a checksum, and
is written under a temporary name and then renamed. A missing, damaged or foreign file is rebuilt. A folder that is
missing or not writable is not an error: the tables then stay in the memory of the process.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

CACHE_VARIABLE = "CONSTRAINED_CACHE"
"""Environment variable: another folder for the files; empty: no files."""

_WORTH_A_FILE = 10_000
"""Number of tokens above which building the tables takes longer than opening a file."""


def cache_folder() -> Path | None:
    """The folder of the files: `CACHE_VARIABLE`, or the user's cache folder; None: no files."""
    named = os.environ.get(CACHE_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "constrained"
    except RuntimeError:  # the home folder is unknown
        return None


def open_tables(
    fingerprint: str, size: int, build: Callable[[Any], Any], *, least: int = _WORTH_A_FILE
) -> Any:
    """A native vocabulary, from its file if there is one.

    Args:
        fingerprint: of the vocabulary.
        size: number of tokens.
        build: creates the native vocabulary from a table file, or from scratch if that is None; raises ValueError if
            the file does not match.
        least: vocabularies of fewer tokens have no file.
    """
    place = cache_folder()
    if place is None or size < least:
        return build(None)
    from constrained import _core

    path = place / f"{fingerprint}.tables-{_core.TABLE_FILE_VERSION}"
    with suppress(OSError, ValueError):
        return build(_mapped(path))
    tables = build(None)
    with suppress(OSError, ValueError):
        _write(path, tables.table_file)
        return build(_mapped(path))  # mapped, so that later processes share this memory
    return tables


def _mapped(path: Path) -> memoryview:
    with open(path, "rb", opener=_opened) as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _opened(path: str, flags: int) -> int:
    """Opens a file without waiting for another side, if it is a pipe: it cannot be mapped then, and is replaced."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _write(path: Path, table_file: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(table_file)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
