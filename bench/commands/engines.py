"""The commands that compare engines on models and schemas of a user's own; a wheel has them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    Out,
    ProgressBar,
    Quiet,
    Resume,
    bench,
    render_tables,
    report_results,
)
from constrained.bench.decisions.settings import DecisionSettings
from constrained.bench.jsonschemabench.settings import SchemaBenchSettings
from constrained.bench.masks.settings import MaskBenchSettings
from constrained.bench.quality.settings import QualitySettings
from constrained.bench.values.settings import ValueSettings
from constrained.cli.exit_status import BadInput, emit
from constrained.cli.options import with_option_groups

Folder = typer.Argument(metavar="FOLDER", help="Folder of `bench jsonschemabench`.")


@bench.command(
    epilog="""\b
Examples:
  constrained bench values --model smollm2 --tasks documents,long-documents --limit 0
  constrained bench values --model smollm2 --limit 20 --out runs/values --resume
  constrained bench values --model smollm2 --tasks e2e,snips --engines constrained,xgrammar --temperature 1
"""
)
@with_option_groups
def values(
    *,
    settings: ValueSettings,
    out: Out = Path("bench-values"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Extract, choose and call tools with a real model: fields right, invented, whole values; the same prompts for all engines.

    Values are compared with those that are known to be right. Rows of one folder are shown together, whichever call wrote them.
    """
    from constrained.bench.values.report import write
    from constrained.bench.values.run import run

    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(write(results, out), out, skipped=results.unavailable, measured=bool(results.rows))


@bench.command(
    epilog="""\b
Examples:
  constrained bench decisions --model smollm2 --limit 25 --out runs/decisions
  constrained bench decisions --model smollm2 --limit 50 --out runs/decisions --resume
  constrained bench decisions --model smollm2 --tasks snips-intents --ways decide,letters --limit 0
"""
)
@with_option_groups
def decisions(
    *,
    settings: DecisionSettings,
    out: Out = Path("bench-decisions"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Ask a real model closed questions in five ways: answers right, log loss, calibration, passes and seconds.

    Rows of one folder are shown together, whichever call wrote them.
    """
    from constrained.bench.decisions.report import differences, write
    from constrained.bench.decisions.run import run

    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(write(results, out), out, notes=differences(results.rows), measured=bool(results.rows))


@bench.command(
    epilog="""\b
Examples:
  constrained bench jsonschemabench --sample 20 --model smollm2 --out runs/small
  constrained bench jsonschemabench --model Qwen/Qwen3-0.6B --model Qwen/Qwen3-4B --device cuda \\
      --data epfl-dlab/JSONSchemaBench --sample 200 --out runs/x --resume
  constrained bench compare runs/x runs/y
"""
)
@with_option_groups
def jsonschemabench(
    *,
    settings: SchemaBenchSettings,
    out: Out = Path("bench-jsonschemabench"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Generate under the schemas of JSONSchemaBench with each model and engine: coverage, compliance, times.

    The engine "unconstrained" is the model alone. A row for each schema and engine is written at once; an interrupted run goes on with --resume. The table
    goes to standard output, both reports to the folder.
    """
    from constrained.bench.jsonschemabench.report import ALL_SPLITS, write
    from constrained.bench.jsonschemabench.run import run

    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    tables = write(results, out)
    whole = [table for table in tables if table.title.endswith(ALL_SPLITS)]
    report_results(whole, out, skipped=results.unavailable, measured=bool(results.rows))


@bench.command()
def compare(first: Annotated[Path, Folder], second: Annotated[Path, Folder]) -> None:
    """Compare two runs of JSONSchemaBench: the same schemas, models and engines, with intervals."""
    from constrained.bench.jsonschemabench.compare import compare as compare_runs
    from constrained.bench.jsonschemabench.compare import differing_settings

    lines = [render_tables(compare_runs(first, second))]
    if different := differing_settings(first, second):
        lines += ["settings that differ:", *(f"  {line}" for line in different)]
    emit("\n".join(lines))


@bench.command()
def report(folder: Annotated[Path, Folder]) -> None:
    """Rewrite the reports of a folder from its rows; the run may still be in progress."""
    from constrained.bench.harness.results import FACTS, RunResults, read_rows
    from constrained.bench.jsonschemabench.report import write
    from constrained.bench.jsonschemabench.rows import SchemaBenchRow

    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        tables = write(RunResults(list(read_rows(folder, SchemaBenchRow)), facts), folder)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(
            f"{str(folder)!r} has no readable results: {error}",
            action="name the folder of `constrained bench jsonschemabench --out`",
        ) from None
    if not tables:
        raise BadInput(f"{str(folder)!r} has no rows yet")
    report_results(tables, folder)


@bench.command(
    epilog="""\b
Examples:
  constrained bench quality --model smollm2 --n 20 --out runs/quality
  constrained bench quality --model smollm2 --tasks last_letters --engines constrained,unconstrained --n 200 --resume
"""
)
@with_option_groups
def quality(
    *,
    settings: QualitySettings,
    out: Out = Path("bench-quality"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Ask puzzles that are answered in JSON, reasoning first: are answers under an engine right as often as without one?

    The tasks are those of JSONSchemaBench's quality axis that need no data: last letters, and objects that are swapped.
    """
    from constrained.bench.quality.report import write
    from constrained.bench.quality.run import run

    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(write(results, out), out, skipped=results.unavailable, measured=bool(results.rows))


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
@with_option_groups
def masks(
    *,
    settings: MaskBenchSettings,
    every: Annotated[bool, typer.Option("--all", help="All schemas, as --sample 0.")] = False,
    out: Out = Path("bench-masks"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Replay recorded JSON token by token: times of masks, and whether they are correct.

    Engines run in turn, a hundred schemas each, each in a process of its own. Each row is written at once, and an
    interrupted run goes on with --resume. Tables go to standard output; rows, summary, tables and a plot go to a folder.
    """
    from constrained.bench.masks.run import run  # imports numpy, which --help does not need

    settings = replace(settings, sample=0) if every else settings
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
