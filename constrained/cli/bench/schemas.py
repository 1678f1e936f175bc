"""`constrained bench jsonschemabench`, and `constrained report` for what it wrote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.bench.common import ProgressBar, bench, data_file, render_tables, split_names
from constrained.cli.exit_status import BadInput, CommandFailed, emit


@bench.command()
def jsonschemabench(
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="WHERE",
            help="A checkout of the benchmark, a file of JSON lines, or the name of a data set "
            "[default: the data of `bench masks`].",
        ),
    ] = None,
    splits: Annotated[
        str | None, typer.Option("--splits", metavar="A,B,C", help="Parts of the data [default: all].")
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="Schemas to draw of each split; 0: all.")
    ] = 50,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same schemas.")] = 0,
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B,C", help="In this order; MODULE:CLASS for your own.")
    ] = "constrained,xgrammar,llguidance,outlines",
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME", help="[default: the bundled one].")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="NAME", help="Where it goes.")] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Of a text.")] = 256,
    compile_limit: Annotated[
        float, typer.Option("--compile-limit", metavar="SECONDS", help="For a schema.")
    ] = 40.0,
    time_limit: Annotated[float, typer.Option("--time-limit", metavar="SECONDS", help="For a text.")] = 40.0,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", metavar="GIB", help="For the process of an engine.")
    ] = 8.0,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", min=1, help="Side by side, a model in each.")
    ] = 1,
    threads: Annotated[int, typer.Option("--threads", metavar="N", min=1, help="Of each process.")] = 1,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="Where the processes are: local, or ray.")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="WHERE",
            help="A Ray cluster that runs [default: one of this machine, for this run].",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows and reports go.")
    ] = Path("bench-jsonschemabench"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Let a model answer to the schemas of JSONSchemaBench under each engine: coverage, compliance, times.

    One row a schema and engine, written as it is known; the same command goes on where a run was interrupted. The table
    goes to standard output, both reports to the folder.
    """
    from constrained.evaluate.jsonschemabench import SchemaBenchSettings, run, write

    settings = SchemaBenchSettings(
        data=data if data is not None else str(data_file(None)),
        splits=split_names(splits, ","),
        sample=sample,
        seed=seed,
        engines=split_names(engines, ","),
        model=model,
        device=device,
        max_tokens=max_tokens,
        compile_limit=compile_limit,
        time_limit=time_limit,
        memory_limit=memory_limit,
        processes=processes,
        threads=threads,
        backend=backend,
        address=address,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar)
    emit(render_tables(write(results, out)[:1]))
    for engine, why in results.unavailable.items():
        print(f"not measured: {engine}: {why}", file=sys.stderr)
    print(f"written to {out}", file=sys.stderr)
    if not results.rows:
        raise CommandFailed(2)


def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `bench jsonschemabench` wrote to.")],
) -> None:
    """Make the reports of a folder again, of all rows that are in it; the run may still be going on."""
    import json

    from constrained.evaluate.jsonschemabench import SchemaBenchResults, write
    from constrained.evaluate.jsonschemabench.run import FACTS, read_rows

    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        rows = read_rows(folder)
        results = SchemaBenchResults(rows, facts["versions"], {}, facts)
        tables = write(results, folder)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(
            f"{str(folder)!r} holds no results that can be read: {error}",
            action="name the folder that `constrained bench jsonschemabench --out` wrote to",
        ) from None
    if not tables:
        raise BadInput(f"{str(folder)!r} holds no rows yet")
    emit(render_tables(tables))
    print(f"written to {folder}", file=sys.stderr)
