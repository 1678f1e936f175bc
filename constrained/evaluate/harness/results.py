"""The folder of a run: rows as JSON lines, written as soon as they are known, and facts about the run."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from constrained.errors import InvalidArgument
from constrained.evaluate.harness.machine import describe

ROWS = "rows.jsonl"
"""File of the raw rows."""


def make_folder(out: Path) -> None:
    """Makes a folder, if it does not exist.

    Raises:
        InvalidArgument: the folder cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"{str(out)!r} cannot be written: {error.strerror}", action="check --out"
        ) from None


def check_no_results(out: Path) -> None:
    """Checks that a folder can take the results of a new run.

    Raises:
        InvalidArgument: the folder already contains rows.
    """
    if (out / ROWS).exists():
        raise InvalidArgument(f"{str(out)!r} already holds results", action="name another folder with --out")


class RowWriter:
    """Appends rows to the file `ROWS` of a folder; a row is on disk when `write` returns.

    A context manager, which closes the file.
    """

    def __init__(self, out: Path) -> None:
        path = out / ROWS
        rows = path.read_bytes() if path.exists() else b""
        self._file = path.open("a", encoding="utf-8")
        if rows and not rows.endswith(b"\n"):  # an interruption cut off the last line
            self._file.write("\n")

    def write(self, row: Any, **more: Any) -> None:
        """Appends a row.

        Args:
            row: a dataclass.
            more: members that go before those of the row.
        """
        self._file.write(json.dumps(more | asdict(row), separators=(",", ":")) + "\n")
        self._file.flush()

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def read_rows(out: Path) -> Iterator[dict[str, Any]]:
    """The rows of a folder; a line that an interruption cut off is left out."""
    path = out / ROWS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _command() -> str:
    return shlex.join(["constrained", *sys.argv[1:]])


@dataclass(frozen=True)
class RunRecord:
    """A run, from its beginning.

    Attributes:
        settings: a dataclass.
        begun: time, UTC.
        machine: see `constrained.evaluate.harness.machine.describe`.
    """

    settings: Any
    begun: str = field(default_factory=_now)
    machine: dict[str, Any] = field(default_factory=describe)

    @property
    def command(self) -> str:
        """The command line of this process."""
        return _command()

    def facts(self) -> dict[str, Any]:
        """Machine, settings, times and command as JSON values; paths are reduced to their names."""
        settings = {
            name: value.name if isinstance(value, Path) else value
            for name, value in asdict(self.settings).items()
        }
        return {
            "machine": self.machine,
            "settings": settings,
            "begun": self.begun,
            "ended": _now(),
            "command": self.command,
        }
