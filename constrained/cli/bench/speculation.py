"""`constrained bench replay`, `equality`, `prior`, `acceptance` and `kernels`: draft tokens and their verification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.bench.common import (
    Data,
    Out,
    ProgressBar,
    Quiet,
    Seed,
    Vocabulary,
    bench,
    data_file,
    report_results,
    split_counts,
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
    from constrained.evaluate.harness.results import RunRecord
    from constrained.evaluate.replay import ReplaySettings, run
    from constrained.evaluate.replay.report import sections, write

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
  constrained bench equality
  constrained bench equality --texts 10000 --model bundled
"""
)
def equality(
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME_OR_FOLDER", help="bundled, or a transformers model.")
    ] = "bundled",
    texts: Annotated[int, typer.Option("--texts", metavar="N", min=1, help="Texts.")] = 1000,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, help="Texts side by side.")] = 16,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Of a text.")] = 64,
    device: Annotated[str | None, typer.Option("--device", help="Where to compute.")] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Of the weights.")] = None,
    seed: Seed = 0,
    out: Out = Path("bench-equality"),
    quiet: Quiet = False,
) -> None:
    """Compare texts with and without draft tokens, in batches: they are equal, token for token, but for float rounding.

    Extractions out of short texts, greedy and at temperature 1, with trees of 8 and of 32 nodes.
    """
    from constrained.evaluate.equality import EqualitySettings, run, table, write
    from constrained.evaluate.harness.results import RunRecord

    settings = EqualitySettings(model, device, dtype, texts, batch, max_tokens, seed)
    record = RunRecord(settings)
    with ProgressBar(quiet) as bar:
        found = run(settings, bar)
    write(found, out, record)
    report_results([table(found)], out)


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
    from constrained.evaluate.prior import CalibrationSettings, PriorSettings, fit

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
        typer.Option(
            "--tokens", metavar="N", help="Size of the vocabulary; up to 14 the optimum is computed."
        ),
    ] = 10,
    pairs: Annotated[int, typer.Option("--pairs", metavar="N", help="Pairs (p, q) of each kind.")] = 20,
    max_drafts: Annotated[
        int, typer.Option("--max-drafts", metavar="K", help="Draft tokens: from 1 to this number.")
    ] = 8,
    draws: Annotated[
        int,
        typer.Option(
            "--draws", metavar="N", help="Draft sequences to sample where there are too many to enumerate."
        ),
    ] = 200,
    seed: Seed = 0,
    out: Out = Path("bench-acceptance"),
    quiet: Quiet = False,
) -> None:
    """Verify k draft tokens by shared noise and by published rules: how often one is accepted.

    On synthetic targets and drafts, flat or peaked, good or bad, beside the optimum of all rules.
    """
    from constrained.evaluate.acceptance import AcceptanceSettings, run

    settings = AcceptanceSettings(tokens, pairs, max_drafts, draws, seed)
    with ProgressBar(quiet) as bar:
        tables = run(settings, out, bar)
    report_results(tables, out)


@bench.command(
    epilog="""\b
Example:
  constrained bench kernels --rows 1,64 --tokens 151936
"""
)
def kernels(
    rows: Annotated[
        str, typer.Option("--rows", metavar="N,N,N", help="Nodes per forward pass.")
    ] = "1,16,64,256",
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=32, help="Size of the vocabulary.")
    ] = 131_072,
    seed: Seed = 0,
    out: Out = Path("bench-kernels"),
    quiet: Quiet = False,
) -> None:
    """Time the verification kernels on a GPU: bandwidth against that of a copy, and errors against float64."""
    from constrained.evaluate.kernels import KernelBenchSettings, run

    settings = KernelBenchSettings(rows=split_counts(rows, "--rows"), tokens=tokens, seed=seed)
    with ProgressBar(quiet) as bar:
        tables = run(settings, out, bar)
    report_results(tables, out)
