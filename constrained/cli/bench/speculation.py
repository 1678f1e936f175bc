"""`constrained bench replay`, `acceptance` and `kernels`: guesses, what they save, and how they are verified."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.bench.common import (
    Data,
    ProgressBar,
    bench,
    data_file,
    render_tables,
    split_names,
)
from constrained.cli.exit_status import BadInput, emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench replay
  constrained bench replay --sample 100 --nodes 16 --out results/today
"""
)
def replay(
    data: Data = None,
    sample: Annotated[int, typer.Option("--sample", metavar="N", min=1, help="Texts, one a schema.")] = 800,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same texts.")] = 0,
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Guessed tokens a pass.")] = 64,
    vocabulary: Annotated[
        str,
        typer.Option(
            "--vocabulary",
            metavar="NAME_OR_FOLDER",
            help="tekken (131,072 tokens, with mistral-common), or a Hugging Face tokenizer.",
        ),
    ] = "tekken",
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="A;B;C", help="Configurations to measure [default: all]."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows, tables and plot go.")
    ] = Path("bench-replay"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Guess recorded JSON ahead: tokens per forward pass, for every source of guesses alone and for all.

    No model runs: the recorded text is what it says. The tables go to standard output; rows, tables and a plot go to
    a folder.
    """
    from constrained.evaluate.replay import ReplaySettings, run
    from constrained.evaluate.replay.report import sections, write

    settings = ReplaySettings(
        data=data_file(data),
        sample=sample,
        seed=seed,
        nodes=nodes,
        vocabulary=vocabulary,
        only=split_names(only, ";"),
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, bar)
    emit(render_tables(sections(results)))
    write(results, out, " ".join(["constrained", *sys.argv[1:]]))
    print(f"written to {out}", file=sys.stderr)


@bench.command(
    epilog="""\b
Examples:
  constrained bench acceptance
  constrained bench acceptance --tokens 100 --pairs 5 --max-drafts 4
"""
)
def acceptance(
    tokens: Annotated[
        int,
        typer.Option("--tokens", metavar="N", help="Of the vocabulary; up to 14 have a computed optimum."),
    ] = 10,
    pairs: Annotated[int, typer.Option("--pairs", metavar="N", help="Of each kind.")] = 20,
    max_drafts: Annotated[
        int, typer.Option("--max-drafts", metavar="K", help="Guesses: from 1 to this.")
    ] = 8,
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
    from constrained.evaluate.acceptance import AcceptanceSettings, run

    settings = AcceptanceSettings(tokens, pairs, max_drafts, draws, seed)
    with ProgressBar(quiet) as bar:
        sections, _ = run(settings, out, bar)
    emit(render_tables(sections))
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
    from constrained.evaluate.kernels import KernelBenchSettings, run

    settings = KernelBenchSettings(rows=_counts(rows), tokens=tokens, seed=seed)
    with ProgressBar(quiet) as bar:
        sections = run(settings, out, bar)
    emit(render_tables(sections))
    print(f"written to {out}", file=sys.stderr)


def _counts(listed: str) -> tuple[int, ...]:
    if all(count.strip().isdecimal() and int(count) for count in listed.split(",")):
        return tuple(int(count) for count in listed.split(","))
    raise BadInput(f"{listed!r} is no list of numbers", action="pass --rows 1,64")
