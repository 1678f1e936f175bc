"""A progress bar over documents, on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(total: int | None, *, shown: bool) -> Iterator[Callable[[bool], None]]:
    """Counts documents: how many are done, how many of them failed, and the rate.

    Args:
        total: number of documents; None if it is not known.
        shown: False: nothing is printed.

    Yields:
        To be called for each document that ended; its argument says whether it failed.
    """
    if not shown:
        yield lambda failed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("documents"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    failures = 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("documents", total=total, rate="", failed="")

        def count(failed: bool) -> None:
            nonlocal failures
            failures += failed
            elapsed = progress.tasks[0].elapsed or 1e-9
            done = progress.tasks[0].completed + 1
            shown_failures = f"[red]{failures} failed[/red]" if failures else ""
            progress.update(task, advance=1, rate=f"{done / elapsed:.1f}/s", failed=shown_failures)

        yield count
