"""`constrained bench fidelity`: distances of samplers from exact conditional distributions, and their costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    DATA_FILE,
    DATA_VARIABLE,
    Out,
    ProgressBar,
    Quiet,
    Seed,
    bench,
    data_file,
    report_results,
    split_counts,
    split_names,
)


@bench.command(
    epilog="""\b
Examples:
  constrained bench fidelity --tasks trees,json/small --sizes 10,100
  constrained bench fidelity --samplers local,rejection,cars --repeats 5 --out results/today
  constrained bench fidelity --model bundled --tasks json --budget 20000
"""
)
def fidelity(
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", metavar="A,B,C", help="Tasks or families [default: all]."),
    ] = None,
    samplers: Annotated[
        str | None,
        typer.Option("--samplers", metavar="A;B;C", help="Samplers, with ; between [default: all]."),
    ] = None,
    sizes: Annotated[
        str, typer.Option("--sizes", metavar="N,N,N", help="Samples in a set.")
    ] = "10,30,100,300",
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Sets of each size.")] = 1,
    seed: Seed = 0,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit", metavar="SECONDS", help="Most expected time of a set; slower sets are left out."
        ),
    ] = 20.0,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="n-gram: one for each task; bundled; or a Hugging Face model.",
        ),
    ] = "n-gram",
    budget: Annotated[
        int,
        typer.Option(
            "--budget", metavar="N", min=1, help="Most prefixes to visit for an exact distribution."
        ),
    ] = 50_000,
    learning: Annotated[
        int,
        typer.Option(
            "--learning",
            metavar="N",
            min=0,
            help="Samples over which the cost of cars is shown as it learns; 0: none.",
        ),
    ] = 100,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help=f"MaskBench data, to count the checks of awrs [default: ${DATA_VARIABLE}/{DATA_FILE}, if set].",
        ),
    ] = None,
    schemas: Annotated[
        int, typer.Option("--schemas", metavar="N", min=0, help="Schemas to sample from it; 0: all.")
    ] = 30,
    predicate: Annotated[
        float,
        typer.Option(
            "--predicate", metavar="MS", min=0.0, help="Time of an expensive predicate; 0: leave it out."
        ),
    ] = 1.0,
    genlm: Annotated[
        str | None,
        typer.Option(
            "--genlm", metavar="PYTHON", help="A Python interpreter with genlm-control: measure that, too."
        ),
    ] = None,
    out: Out = Path("bench-fidelity"),
    quiet: Quiet = False,
) -> None:
    """Sample small languages with every sampler: distance from the exact conditional distribution, and costs.

    The exact distributions are computed by enumerating every sequence. Tables go to standard output; rows, summary,
    tables and a plot go to a folder.
    """
    from constrained.bench.fidelity import FidelitySettings, run

    settings = FidelitySettings(
        tasks=split_names(tasks, ","),
        samplers=split_names(samplers, ";"),
        sizes=split_counts(sizes, "--sizes"),
        repeats=repeats,
        seed=seed,
        time_limit=time_limit,
        model=model,
        budget=budget,
        learning=learning,
        data=data_file(data) if data is not None or os.environ.get(DATA_VARIABLE) else None,
        schemas=schemas,
        predicate=predicate,
        genlm=genlm,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar)
    measurements = results.measurements
    report_results(
        results.sections,
        out,
        skipped=results.skipped,
        measured=bool(measurements.rows or measurements.questions),
    )
