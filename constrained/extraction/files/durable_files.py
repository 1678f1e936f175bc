"""Files that survive a kill and a power failure: lines that are appended whole, and files that appear whole."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from constrained.errors import DocumentError

SYNC_SECONDS = 1.0
"""Longest time for which lines are only in the system's memory while more are appended. A kill of the process loses
none of them, a power failure may lose these."""


class LineFile:
    """Appends lines of JSON. Each is with the system when `append` returns, and on the disk after `SYNC_SECONDS`.

    Attributes:
        name: of the file.
    """

    def __init__(self, name: str) -> None:
        """Opens or creates the file, for this process alone; what is there has to end with a whole line, see `repair_lines`.

        Raises:
            DocumentError: the file cannot be written, or another process has it open.
        """
        self.name = name
        self._synced = time.monotonic()
        try:
            self._file = open(name, "ab", buffering=0)  # noqa: SIM115 (closed by `close`)
            sync_folder(name)
        except OSError as error:
            raise not_written(name, error) from None
        if not lock(self._file.fileno()):
            self._file.close()
            raise in_use(name)

    def append(self, line: str) -> None:
        """Appends a line without its end.

        Raises:
            DocumentError: it cannot be written; the file ends with the line before.
        """
        # A lone surrogate becomes the JSON escape of itself.
        data = memoryview(line.encode("utf-8", "backslashreplace") + b"\n")
        start = self._file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                self.sync()
        except BaseException as error:
            with contextlib.suppress(OSError):
                if data:
                    self._file.truncate(start)
            if isinstance(error, OSError):
                raise not_written(self.name, error) from None
            raise

    def sync(self) -> None:
        """Puts all lines on the disk."""
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Puts all lines on the disk and closes the file."""
        if not self._file.closed:
            try:
                self.sync()
            except OSError as error:
                raise not_written(self.name, error) from None
            finally:
                self._file.close()


def read_lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; of none, if the file is missing."""
    if os.path.exists(name):
        with open(name, "rb") as file:
            yield from map(json.loads, file)


def repair_lines(name: str) -> None:
    """Cuts off what a kill or a power failure left behind the last whole line of a file of JSON lines.

    Raises:
        DocumentError: a damaged line stands before whole ones, so it is no unfinished one; or the file cannot be read.
    """
    if not os.path.exists(name):
        return
    try:
        with open(name, "rb+") as file:
            end = position = bad = 0
            for number, line in enumerate(file, 1):
                position += len(line)
                if not _whole(line):
                    bad = bad or number
                elif bad:
                    raise DocumentError(
                        f"{name}, line {bad}: not a result", action="remove the line, or name another file"
                    )
                else:
                    end = position
            if end < position:
                file.truncate(end)
                os.fsync(file.fileno())
    except OSError as error:
        raise not_written(name, error) from None


def _whole(line: bytes) -> bool:
    try:
        return line.endswith(b"\n") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def rewrite_lines(name: str, lines: Iterable[str]) -> None:
    """Replaces a file by one with these lines: all of them, or the file stays as it was.

    Raises:
        DocumentError: it cannot be written.
    """
    try:
        with whole_file(name) as temporary, open(temporary, "wb") as file:
            for line in lines:
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
    except OSError as error:
        raise not_written(name, error) from None


@contextlib.contextmanager
def whole_file(name: str) -> Iterator[str]:
    """Gives the name under which a file is written; it gets its own, `name`, at the end, or is removed after an error.

    Raises:
        OSError: as `os.replace`.
    """
    temporary = f"{name}.{os.getpid()}.tmp"
    try:
        yield temporary
        replace_durably(temporary, name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_unfinished(name: str) -> None:
    """Removes what killed processes have left of a file that should have been whole."""
    for path in glob.glob(f"{glob.escape(name)}.*.tmp"):
        with contextlib.suppress(OSError):
            os.unlink(path)


def replace_durably(temporary: str, name: str) -> None:
    """Gives a written file its name; afterwards the file is whole and on the disk, also if the power fails.

    Raises:
        OSError: as `os.replace`.
    """
    with open(temporary, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, name)
    sync_folder(name)


def sync_folder(name: str) -> None:
    """Puts the entry of a file in its folder on the disk, where the system can do that."""
    if os.name != "posix":
        return
    folder = os.open(os.path.dirname(os.path.abspath(name)), os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse
            os.fsync(folder)
    finally:
        os.close(folder)


def lock(descriptor: int) -> bool:
    """Locks a file against other processes until it is closed; True where the system has no such locks.

    Returns:
        Whether this process has the lock now.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def in_use(name: str) -> DocumentError:
    """The error about a file of results that another process has locked."""
    return DocumentError(f"another process writes to the results of {name}", action="wait for its end")


def not_written(name: str, error: OSError) -> DocumentError:
    """The error about a file that cannot be written."""
    reason = error.strerror or str(error)
    return DocumentError(f"{name} cannot be written: {reason[:1].lower()}{reason[1:]}")
