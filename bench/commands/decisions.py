"""`constrained bench decisions`: closed questions by `decide`, by masks, by letters, and option by option."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    VALUES_FILE,
    ChatModel,
    Limit,
    Out,
    ProgressBar,
    Quiet,
    Resume,
    Seed,
    Threads,
    ValuesData,
    bench,
    data_file,
    report_results,
    split_names,
)


@bench.command(
    epilog="""\b
Examples:
  constrained bench decisions --model smollm2 --limit 25 --out runs/decisions
  constrained bench decisions --model smollm2 --limit 50 --out runs/decisions --resume
  constrained bench decisions --model smollm2 --tasks snips-intents --ways decide,letters --limit 0
"""
)
def decisions(
    model: ChatModel = "bundled",
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="A,B,C",
            help="banking77, snips-intents, bfcl-multiple, e2e-closed [default: these], label-sets.",
        ),
    ] = None,
    ways: Annotated[
        str | None,
        typer.Option(
            "--ways",
            metavar="A,B,C",
            help="decide, decide-none, masks, letters, one-by-one [default: all].",
        ),
    ] = None,
    limit: Limit = 25,
    seed: Seed = 0,
    threads: Threads = 1,
    data: ValuesData = None,
    out: Out = Path("bench-decisions"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Ask a real model closed questions in five ways: answers right, log loss, calibration, passes and seconds.

    Rows of one folder are shown together, whichever call wrote them.
    """
    from constrained.bench.decisions import DecisionSettings, run, write
    from constrained.bench.decisions.items import PUBLIC
    from constrained.bench.decisions.report import differences
    from constrained.bench.decisions.ways import WAYS

    settings = DecisionSettings(
        data_file(data, VALUES_FILE),
        model,
        split_names(tasks, ",") or PUBLIC,
        split_names(ways, ",") or WAYS,
        limit,
        seed,
        threads,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(write(results, out), out, notes=differences(results.rows), measured=bool(results.rows))
