"""What the benches share: the group of commands, their data, a progress bar, tables for the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.cli.exit_status import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from constrained.evaluate.masks.report import ReportTable

DATA_VARIABLE = "CONSTRAINED_DATA"
DATA_FILE = "maskbench-dev.jsonl.gz"

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help=f"MaskBench data, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{DATA_FILE}].",
    ),
]
"""The option by which data is named; `data_file` reads it."""

bench = typer.Typer(
    help="Measure this library, and others beside it.", rich_markup_mode=None, no_args_is_help=True
)


@bench.callback()
def _bench() -> None:
    pass


def data_file(named: Path | None) -> Path:
    """The data that is named, or that of the environment.

    Raises:
        BadInput: there is none.
    """
    if named is not None:
        return named
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise BadInput(
            "no data is named",
            action=f"pass --data FILE, or set {DATA_VARIABLE} to the folder of {DATA_FILE}",
        )
    return Path(folder) / DATA_FILE


def split_names(names: str | None, separator: str) -> tuple[str, ...]:
    """Names out of one option."""
    return tuple(name.strip() for name in (names or "").split(separator) if name.strip())


class ProgressBar:
    """A progress bar on standard error, where somebody watches."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
            refresh_per_second=2,  # whatever the bar costs is measured along
        )
        self._task = self._bar.add_task("", total=None)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Shows what goes on."""
        self._bar.update(self._task, description=what, completed=done, total=total or None)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()


def render_tables(sections: Sequence[ReportTable]) -> str:
    """Tables for the terminal."""
    from rich.console import Console

    from constrained.evaluate.masks.report import table

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as captured:
        for section in sections:
            console.print(table(section))
            console.print()
    return captured.get().rstrip()
