"""`constrained bench quality`: does a constraint cost accuracy? Puzzles with one right answer, beside other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    ChatModel,
    Out,
    ProgressBar,
    Quiet,
    Resume,
    Seed,
    bench,
    report_results,
    split_names,
)


@bench.command(
    epilog="""\b
Examples:
  constrained bench quality --model smollm2 --n 20 --out runs/quality
  constrained bench quality --model smollm2 --tasks last_letters --engines constrained,unconstrained --n 200 --resume
"""
)
def quality(
    model: ChatModel = "bundled",
    tasks: Annotated[
        str, typer.Option("--tasks", metavar="A,B", help="In this order.")
    ] = "last_letters,shuffled_objects",
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B,C", help="In this order; MODULE:CLASS for your own.")
    ] = "constrained,xgrammar,llguidance,outlines,unconstrained",
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, help="Puzzles of each task.")] = 50,
    seed: Seed = 0,
    shots: Annotated[
        int, typer.Option("--shots", metavar="N", min=0, help="Examples in the prompt, with their reasoning.")
    ] = 3,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Token limit.")] = 256,
    out: Out = Path("bench-quality"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Ask puzzles that are answered in JSON, reasoning first: are answers under an engine right as often as without one?

    The tasks are those of JSONSchemaBench's quality axis that need no data: last letters, and objects that are swapped.
    """
    from constrained.bench.quality import QualitySettings, run, write

    settings = QualitySettings(
        model, split_names(tasks, ","), split_names(engines, ","), n, seed, shots, max_tokens
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(write(results, out), out, skipped=results.unavailable, measured=bool(results.rows))
