"""`constrained bench faithful`: how far samplers are from the exact law, and what they cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.bench.common import (
    DATA_FILE,
    DATA_VARIABLE,
    ProgressBar,
    bench,
    data_file,
    render_tables,
    split_names,
)
from constrained.cli.exit_status import BadInput, CommandFailed, emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench faithful --tasks trees,json/small --sizes 10,100
  constrained bench faithful --samplers local,rejection,cars --repeats 5 --out results/today
  constrained bench faithful --model bundled --tasks json --budget 20000
"""
)
def faithful(
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", metavar="A,B,C", help="Tasks or families [default: all]."),
    ] = None,
    samplers: Annotated[
        str | None,
        typer.Option("--samplers", metavar="A;B;C", help="What to compare, with ; between [default: all]."),
    ] = None,
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N,N", help="Texts of a set.")] = "10,30,100,300",
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Sets of each size.")] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Same seed, same texts.")] = 0,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="For a set that is worth drawing.")
    ] = 20.0,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="n-gram: each task's own; bundled; or what the other commands take.",
        ),
    ] = "n-gram",
    budget: Annotated[
        int,
        typer.Option("--budget", metavar="N", min=1, help="Beginnings of texts to visit for an exact law."),
    ] = 50_000,
    learning: Annotated[
        int,
        typer.Option("--learning", metavar="N", min=0, help="Texts over which learning is shown; 0: none."),
    ] = 100,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help=f"MaskBench data, for what awrs asks [default: ${DATA_VARIABLE}/{DATA_FILE}, if set].",
        ),
    ] = None,
    schemas: Annotated[
        int, typer.Option("--schemas", metavar="N", min=0, help="Schemas to draw from it; 0: all.")
    ] = 30,
    vocabularies: Annotated[
        str | None,
        typer.Option(
            "--vocabularies",
            metavar="N,N,N",
            help="Ask awrs in the first N tokens of tekken as well (with mistral-common).",
        ),
    ] = None,
    predicate: Annotated[
        float,
        typer.Option("--predicate", metavar="MS", min=0.0, help="Time of a dear predicate; 0: leave it out."),
    ] = 1.0,
    genlm: Annotated[
        str | None,
        typer.Option(
            "--genlm", metavar="PYTHON", help="An interpreter that has genlm-control: measure it, too."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows, summary and plot go.")
    ] = Path("bench-faithful"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Draw texts of small languages with every sampler: how far they are from the exact law, and what they cost.

    The exact laws are written down by visiting every text. The tables go to standard output; raw rows, summary,
    tables and a plot go to a folder.
    """
    from constrained.evaluate.fidelity import FidelitySettings, run

    settings = FidelitySettings(
        tasks=split_names(tasks, ","),
        samplers=split_names(samplers, ";"),
        sizes=_numbers(sizes),
        repeats=repeats,
        seed=seed,
        time_limit=time_limit,
        model=model,
        budget=budget,
        learning=learning,
        data=data_file(data) if data is not None or os.environ.get(DATA_VARIABLE) else None,
        schemas=schemas,
        vocabularies=_numbers(vocabularies) if vocabularies else (),
        predicate=predicate,
        genlm=genlm,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar)
    emit(render_tables(results.sections))
    for what, why in results.skipped.items():
        print(f"not measured: {what}: {why}", file=sys.stderr)
    print(f"written to {out}", file=sys.stderr)
    if not (results.measurements.rows or results.measurements.questions):
        raise CommandFailed(2)


def _numbers(listed: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in listed.split(","))
    except ValueError:
        raise BadInput(f"{listed!r} is no list of numbers", action="pass --sizes 10,100") from None
