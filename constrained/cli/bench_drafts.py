"""`constrained bench acceptance` and `bench kernels`: how guesses are verified, and what that costs on a device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.bench import Bar, bench, printed
from constrained.cli.outcome import BadInput, emit

__all__ = ["bench"]  # with all its commands, those of this file included


@bench.command(
    epilog="""\b
Examples:
  constrained bench acceptance
  constrained bench acceptance --tokens 100 --pairs 5 --most 4
"""
)
def acceptance(
    tokens: Annotated[
        int,
        typer.Option("--tokens", metavar="N", help="Of the vocabulary; up to 14 have a computed optimum."),
    ] = 10,
    pairs: Annotated[int, typer.Option("--pairs", metavar="N", help="Of each kind.")] = 20,
    most: Annotated[int, typer.Option("--most", metavar="K", help="Guesses: from 1 to this.")] = 8,
    draws: Annotated[
        int, typer.Option("--draws", metavar="N", help="Guesses drawn where there are too many to visit.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same pairs.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows, tables and plot go.")
    ] = Path("bench-acceptance"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Verify k guesses by shared noise, and by the rules of others: how often one is right.

    On synthetic targets and drafts, flat or peaked, good or bad; beside them the optimum that no rule exceeds.
    """
    from constrained.evaluate.acceptance import Settings, run

    settings = Settings(tokens, pairs, most, draws, seed)
    with Bar(quiet) as bar:
        sections, _ = run(settings, out, bar)
    emit(printed(sections))
    print(f"written to {out}", file=sys.stderr)


@bench.command(
    epilog="""\b
Example:
  constrained bench kernels --rows 1,64 --tokens 151936
"""
)
def kernels(
    rows: Annotated[str, typer.Option("--rows", metavar="N,N,N", help="Nodes of a pass.")] = "1,16,64,256",
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=32, help="Of the vocabulary.")
    ] = 131_072,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the data.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the rows go.")] = Path(
        "bench-kernels"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Time the kernels of verification on a GPU: bytes moved, against what a copy moves, and a check in float64."""
    from constrained.evaluate.kernels import Settings, run

    settings = Settings(rows=_counts(rows), tokens=tokens, seed=seed)
    with Bar(quiet) as bar:
        sections = run(settings, out, bar)
    emit(printed(sections))
    print(f"written to {out}", file=sys.stderr)


def _counts(listed: str) -> tuple[int, ...]:
    if all(count.strip().isdecimal() and int(count) for count in listed.split(",")):
        return tuple(int(count) for count in listed.split(","))
    raise BadInput(f"{listed!r} is no list of numbers", action="pass --rows 1,64")
