"""Native tables of vocabularies as files, which processes map into memory and share.

A file is named for the content of the vocabulary and for the layout of the tables, is written under another name and
renamed when it is whole, and carries a checksum. One that is missing, damaged or of another machine is made again. That
a folder cannot be written to, or that there is none, is no error: the tables are then in memory of the process.
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
"""Tokens from which on building takes longer than opening a file."""


def cache_folder() -> Path | None:
    """Where the files are: `CACHE_VARIABLE`, or the user's folder for caches; None: nowhere."""
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
    except RuntimeError:  # there is no home
        return None


def open_tables(
    fingerprint: str, size: int, build: Callable[[Any], Any], *, least: int = _WORTH_A_FILE
) -> Any:
    """A native vocabulary, from its file if there is one.

    Args:
        fingerprint: of the vocabulary's content.
        size: its number of tokens.
        build: the native vocabulary from a table file of its tables, or from scratch if that is None. Raises ValueError
            for a table file that does not fit.
        least: vocabularies of fewer tokens have no file.
    """
    place = cache_folder()
    if place is None or size < least:
        return build(None)
    from constrained import _core

    path = place / f"{fingerprint}.tables-{_core.TABLE_FILE_VERSION}"
    with suppress(OSError, ValueError):
        return build(_mapped(path))
    built = build(None)
    with suppress(OSError, ValueError):
        _write(path, built.table_file)
        return build(_mapped(path))  # the same memory as the processes to come
    return built


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


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
