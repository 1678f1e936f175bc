"""`constrained bench replay` and `prior`: draft tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    Data,
    Out,
    ProgressBar,
    Quiet,
    Seed,
    Vocabulary,
    bench,
    data_file,
    report_results,
    split_names,
)
from constrained.cli.exit_status import BadInput, emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench replay
  constrained bench replay --sample 100 --nodes 16 --out results/today
  constrained bench replay --prior none --splits Github,Kubernetes
"""
)
def replay(
    data: Data = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, help="Recorded values, one for each schema.")
    ] = 800,
    seed: Seed = 0,
    nodes: Annotated[
        int, typer.Option("--nodes", metavar="N", min=1, help="Draft tokens per forward pass.")
    ] = 64,
    vocabulary: Vocabulary = "tekken",
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="A;B;C", help="Configurations to measure [default: all]."),
    ] = None,
    prior: Annotated[
        str,
        typer.Option(
            "--prior",
            metavar="NAME_OR_FILE",
            help="What drafters know before: shipped, none, or a file of `bench prior`.",
        ),
    ] = "shipped",
    splits: Annotated[
        str | None,
        typer.Option("--splits", metavar="A,B,C", help="Rows whose ids begin so [default: all]."),
    ] = None,
    out: Out = Path("bench-replay"),
    quiet: Quiet = False,
) -> None:
    """Speculate on recorded JSON: tokens per forward pass, for every draft source alone, left out, and for all together.

    Rows that the prior was fitted to are left out.
    No model runs: the recorded tokens stand for its output. Tables go to standard output; rows, tables and a plot go to
    a folder.
    """
    from constrained.bench.harness.results import RunRecord
    from constrained.bench.replay import ReplaySettings, run
    from constrained.bench.replay.report import sections, write

    settings = ReplaySettings(
        data=data_file(data),
        sample=sample,
        seed=seed,
        nodes=nodes,
        vocabulary=vocabulary,
        only=split_names(only, ";"),
        prior=prior,
        splits=split_names(splits, ","),
    )
    record = RunRecord(settings)
    with ProgressBar(quiet) as bar:
        results = run(settings, bar)
    write(results, out, record)
    report_results(sections(results), out)


@bench.command(
    epilog="""\b
Examples:
  constrained bench prior --out prior.json.gz
  constrained bench prior --data folder-of-json-files --schemas 2 --out ours.json.gz
"""
)
def prior(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE_OR_FOLDER",
            help="MaskBench data, or a folder of JSON files [default: the MaskBench data].",
        ),
    ] = None,
    schemas: Annotated[
        int, typer.Option("--schemas", metavar="K", min=1, help="Keep what occurs under K schemas.")
    ] = 3,
    share: Annotated[int, typer.Option("--share", metavar="N", min=1, help="Count one row in N.")] = 2,
    without: Annotated[
        str | None, typer.Option("--without", metavar="A,B,C", help="Leave out rows whose ids begin so.")
    ] = None,
    extractions: Annotated[
        int,
        typer.Option(
            "--extractions", metavar="N", min=0, help="Extractions by the bundled model to calibrate by."
        ),
    ] = 100,
    vocabulary: Vocabulary = "tekken",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file.")] = Path(
        "prior.json.gz"
    ),
    quiet: Quiet = False,
) -> None:
    """Count what JSON texts under many schemas have in common, for drafters to begin with.

    The file has counts of what occurs under several schemas, in bytes and not in tokens, and no text of the data as such.
    """
    from constrained.bench.prior import CalibrationSettings, PriorSettings, fit

    settings = PriorSettings(
        data=data_file(data),
        schemas=schemas,
        share=share,
        without=split_names(without, ","),
        calibration=CalibrationSettings(extractions=extractions, vocabulary=vocabulary),
    )
    with ProgressBar(quiet) as bar:
        found = fit(settings, bar)
    try:
        found.save(out)
    except OSError as error:
        raise BadInput(f"{str(out)!r} cannot be written: {error.strerror or error}") from None
    places = sum(map(len, found.slots.values()))
    emit(f"{places} places, {len(found.ngrams)} n-grams, {out.stat().st_size} bytes")
