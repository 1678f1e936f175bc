"""Shared by the bench commands: their group, common options, a progress bar, and the report at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.cli.exit_status import CommandFailed, emit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from constrained.bench.harness.tables import ReportTable

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for rows, tables and plot.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on in a folder that holds rows of an earlier run.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

bench = typer.Typer(
    help="Measure this library, and others beside it.", rich_markup_mode=None, no_args_is_help=True
)


class ProgressBar:
    """A progress bar on standard error, if that is a terminal."""

    def __init__(self, quiet: bool) -> None:
        from rich import progress
        from rich.console import Console

        console = Console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
            refresh_per_second=2,  # drawing it takes time from the measurement
        )
        self._task = self._bar.add_task("", total=None)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Shows the present step; see `constrained.bench.harness.Progress`."""
        self._bar.update(self._task, description=what, completed=done, total=total or None)

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()


def render_tables(tables: Sequence[ReportTable]) -> str:
    """Tables for the terminal."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as captured:
        for table in tables:
            console.print(table.rich())
            console.print()
    return captured.get().rstrip()


def report_results(
    tables: Sequence[ReportTable],
    out: Path,
    *,
    skipped: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    measured: bool = True,
) -> None:
    """Prints tables on standard output; on standard error what was not measured, and the folder.

    Args:
        tables: of the run.
        out: folder of the run.
        skipped: what was not measured -> why.
        notes: lines after the tables.
        measured: there are results.

    Raises:
        CommandFailed: there are no results.
    """
    emit("\n".join([render_tables(tables), *notes]))
    for what, why in (skipped or {}).items():
        print(f"not measured: {what}: {why}", file=sys.stderr)
    print(f"written to {out}", file=sys.stderr)
    if not measured:
        raise CommandFailed(2)
