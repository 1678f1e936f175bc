"""The folder of a run: rows as JSON lines, written as soon as they are known, and facts about the run."""

from __future__ import annotations

import contextlib
import gzip
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Generic, TypeVar

from constrained.bench.harness.machine import describe
from constrained.bench.harness.settings import Progress, measured
from constrained.errors import InvalidArgument

Row = TypeVar("Row")

ROWS = "rows.jsonl"
"""File of the raw rows."""
FACTS = "settings.json"
"""File of what all rows of a folder have in common; see `settle_folder`."""


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


def settle_folder(out: Path, settings: dict[str, Any], *, resume: bool) -> dict[str, Any]:
    """Makes the folder of a run, or opens it again to go on in it.

    Args:
        out: the folder.
        settings: the settings that its rows depend on, as JSON values.
        resume: go on where an earlier run ended; without rows it is a new run.

    Returns:
        The facts of the folder: ``settings``, ``machine``, and ``versions``, a dict for the caller to fill. They are
        written to the file `FACTS`.

    Raises:
        InvalidArgument: the folder cannot be used, holds rows and is not to be resumed, or holds rows of other settings.
    """
    if (out / ROWS).exists() and not resume:
        raise InvalidArgument(
            f"{str(out)!r} already holds results",
            action="go on with --resume, or name another folder with --out",
        )
    make_folder(out)
    known = out / FACTS
    if not (out / ROWS).exists():
        facts: dict[str, Any] = {"settings": settings, "machine": describe(), "versions": {}}
        write_facts(out, facts)
        return facts
    try:
        facts = json.loads(known.read_text(encoding="utf-8"))
        held = facts["settings"]
    except (OSError, ValueError, KeyError) as error:
        raise InvalidArgument(
            f"{str(out)!r} holds rows without readable settings: {error}",
            action="name another folder with --out",
        ) from None
    settings = json.loads(json.dumps(settings))
    if held != settings:
        other = sorted(name for name in held.keys() | settings.keys() if held.get(name) != settings.get(name))
        raise InvalidArgument(
            f"{str(out)!r} holds rows of other settings ({', '.join(other)})",
            action="name another folder with --out",
        )
    return facts


def write_facts(out: Path, facts: dict[str, Any]) -> None:
    """Writes the file `FACTS` of a folder.

    Raises:
        InvalidArgument: the folder cannot be written.
    """
    try:
        (out / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"{str(out)!r} cannot be written: {error}", action="check --out") from None


class RowWriter:
    """Appends rows to the file `ROWS` of a folder; a row is on disk when `write` returns.

    A context manager, which closes the file.
    """

    def __init__(self, out: Path) -> None:
        path = out / ROWS
        cut = path.exists() and _last_byte(path) not in (b"", b"\n")
        self._file = path.open("a", encoding="utf-8")
        if cut:  # by an interruption, in the middle of a line
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


def read_rows(out: Path, kind: Callable[..., Any] = dict) -> Iterator[Any]:
    """The rows of a folder, each made by `kind` of its members; a line that an interruption cut off is left out."""
    path = out / ROWS
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                yield kind(**json.loads(line))


def measure_items(
    out: Path, left: Sequence[tuple[Any, str]], row: Callable[[Any, str], Row], progress: Progress
) -> list[Row]:
    """A row for each item, which has a task, and name of what is measured on it; written as soon as it is known."""
    rows = []
    with RowWriter(out) as writer:
        for count, (item, name) in enumerate(left):
            progress(f"{item.task}, {name}", count, len(left))
            rows.append(row(item, name))
            writer.write(rows[-1])
    return rows


def json_lines(path: Path) -> Iterator[Any]:
    """The values of a file of JSON lines, plain or gzipped; empty lines are left out."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1))
        return file.read(1)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class RunResults(Generic[Row]):
    """What a run found.

    Attributes:
        rows: all of the folder, those of earlier runs too.
        facts: settings, machine, and versions of the engines.
        unavailable: engines that could not be started -> why.
    """

    rows: list[Row]
    facts: dict[str, Any]
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRecord:
    """A run, from its beginning.

    Attributes:
        settings: a dataclass.
        begun: time, UTC.
        machine: see `constrained.bench.harness.machine.describe`.
    """

    settings: Any
    begun: str = field(default_factory=_now)
    machine: dict[str, Any] = field(default_factory=describe)

    @property
    def command(self) -> str:
        """The command line of this process."""
        return shlex.join(["constrained", *sys.argv[1:]])

    def facts(self) -> dict[str, Any]:
        """Machine, settings, times and command as JSON values; paths are reduced to their names."""
        return {
            "machine": self.machine,
            "settings": measured(self.settings),
            "begun": self.begun,
            "ended": _now(),
            "command": self.command,
        }
