"""`constrained bench masks`: times of masks for several engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    Data,
    Out,
    ProgressBar,
    Quiet,
    Resume,
    Seed,
    Vocabulary,
    bench,
    data_file,
    report_results,
    split_names,
)


@bench.command(
    epilog="""\b
Examples:
  constrained bench masks --sample 50 --engines constrained,llguidance
  constrained bench masks --sample 600 --seed 1 --warm --batch 64 --out results/today
  constrained bench masks --sample 20 --engines constrained,llguidance --compare
  constrained bench masks --all --out results/maskbench
  constrained bench masks --all --out results/maskbench --resume

The engines other than this library come with: pip install 'constrained-generation[bench]'
"""
)
def masks(
    data: Data = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="Schemas to sample; 0: all.")
    ] = 600,
    every: Annotated[bool, typer.Option("--all", help="All schemas, as --sample 0.")] = False,
    seed: Seed = 0,
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines",
            metavar="A,B,C",
            help="In this order; MODULE:CLASS for your own "
            "[default: constrained,llguidance,glrmask,xgrammar,outlines].",
        ),
    ] = None,
    vocabulary: Vocabulary = "tekken",
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="For one schema under one engine.")
    ] = 120.0,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", metavar="GIB", help="For the process of an engine.")
    ] = 8.0,
    warm: Annotated[bool, typer.Option("--warm", help="Also measure each schema a second time.")] = False,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=0, help="Also measure N states in one call.")
    ] = 0,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, help="Threads of each engine.")
    ] = 1,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also compare all masks with the first engine's (small samples)."),
    ] = False,
    out: Out = Path("bench-masks"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Replay recorded JSON token by token: times of masks, and whether they are correct.

    Engines run in turn, a hundred schemas each, each in a process of its own. Each row is written at once, and an
    interrupted run goes on with --resume. Tables go to standard output; rows, summary, tables and a plot go to a folder.
    """
    from constrained.bench.masks import MaskBenchSettings, run  # imports numpy, which --help does not need
    from constrained.bench.masks.engines import DEFAULT_ENGINES

    settings = MaskBenchSettings(
        data=data_file(data),
        sample=0 if every else sample,
        seed=seed,
        engines=DEFAULT_ENGINES if engines is None else split_names(engines, ","),
        vocabulary=vocabulary,
        time_limit=time_limit,
        memory_limit=memory_limit,
        warm=warm,
        batch=batch,
        threads=threads,
        compare=compare,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(
        results.sections,
        out,
        skipped={one.engine: one.unavailable for one in results.engines if one.unavailable},
        notes=[
            f"masks of {name} against the first engine: {tally}"
            for name, tally in results.differences.items()
        ],
        measured=bool(results.sections),
    )
