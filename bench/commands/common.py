"""Shared by the bench commands: their group, common options, data, a progress bar, and the report at the end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.cli.exit_status import BadInput, CommandFailed, emit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from constrained.bench.harness.tables import ReportTable

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
"""The MaskBench data; see `data_file`."""

VALUES_FILE = "values-dev.jsonl.gz"
ValuesData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help=f"Public rows, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{VALUES_FILE}].",
    ),
]
"""Public texts with known answers; see `data_file`."""

ChatModel = Annotated[
    str, typer.Option("--model", "-m", metavar="NAME", help="A name or folder of a chat model.")
]
Threads = Annotated[int, typer.Option("--threads", metavar="N", min=1, help="Threads of torch.")]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=0, help="Items to draw from each task; 0: all.")
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Same seed, same sample.", show_default=True)
]
Vocabulary = Annotated[
    str,
    typer.Option(
        "--vocabulary",
        metavar="NAME_OR_FOLDER",
        help="tekken (131,072 tokens, with mistral-common), or a Hugging Face tokenizer.",
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for rows, tables and plot.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on in a folder that holds rows of an earlier run.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

bench = typer.Typer(
    help="Measure this library, and others beside it.", rich_markup_mode=None, no_args_is_help=True
)


@bench.callback()
def _bench() -> None:
    pass


def data_file(named: Path | None, default: str = DATA_FILE) -> Path:
    """The named file, or the default one in the folder of the environment variable.

    Raises:
        BadInput: neither is set.
    """
    if named is not None:
        return named
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise BadInput(
            "no data is named",
            action=f"pass --data FILE, or set {DATA_VARIABLE} to the folder of {default}",
        )
    return Path(folder) / default


def split_names(names: str | None, separator: str) -> tuple[str, ...]:
    """The names in the value of an option."""
    return tuple(name.strip() for name in (names or "").split(separator) if name.strip())


def split_counts(value: str, option: str) -> tuple[int, ...]:
    """The positive numbers in the value of an option, with commas between.

    Raises:
        BadInput: a part is not a positive number.
    """
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) for part in parts):
        raise BadInput(f"{value!r} is not a list of numbers >= 1", action=f"pass {option} 1,64")
    return tuple(map(int, parts))


class ProgressBar:
    """A progress bar on standard error, if that is a terminal."""

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
