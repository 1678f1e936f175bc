"""`constrained bench jsonschemabench`, and `bench report` and `bench compare` for what it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    Out,
    ProgressBar,
    Quiet,
    Resume,
    Seed,
    bench,
    data_file,
    render_tables,
    report_results,
    split_names,
)
from constrained.cli.exit_status import BadInput, emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench jsonschemabench --sample 20 --model smollm2 --out runs/small
  constrained bench jsonschemabench --model Qwen/Qwen3-0.6B --model Qwen/Qwen3-4B --device cuda \\
      --data epfl-dlab/JSONSchemaBench --sample 200 --out runs/x --resume
  constrained bench compare runs/x runs/y
"""
)
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
        int, typer.Option("--sample", metavar="N", min=0, help="Schemas to sample from each split; 0: all.")
    ] = 50,
    seed: Seed = 0,
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B,C", help="In this order; MODULE:CLASS for your own.")
    ] = "constrained,xgrammar,llguidance,outlines,unconstrained",
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="NAME", help="May be given several times [default: bundled]."),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="Device of the model.")
    ] = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Token limit.")] = 256,
    compile_limit: Annotated[
        float, typer.Option("--compile-limit", metavar="SECONDS", help="For compiling a schema.")
    ] = 40.0,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="For a completion.")
    ] = 40.0,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", metavar="GIB", help="For the process of an engine.")
    ] = 8.0,
    processes: Annotated[
        int,
        typer.Option("--processes", metavar="N", min=1, help="Parallel processes, each with its own model."),
    ] = 1,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, help="Threads of each process.")
    ] = 1,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="NAME",
            help="Where the processes run: local, or ray; vllm: in vLLM; vllm-server: its HTTP server.",
        ),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="WHERE",
            help="Address of a running Ray cluster [default: starts one on this machine for this run].",
        ),
    ] = None,
    out: Out = Path("bench-jsonschemabench"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Generate under the schemas of JSONSchemaBench with each model and engine: coverage, compliance, times.

    The engine "unconstrained" is the model alone. A row for each schema and engine is written at once; an interrupted run goes on with --resume. The table
    goes to standard output, both reports to the folder.
    """
    from constrained.bench.jsonschemabench import SchemaBenchSettings, run, write
    from constrained.bench.jsonschemabench.report import ALL_SPLITS
    from constrained.bench.jsonschemabench.rows import BUNDLED

    settings = SchemaBenchSettings(
        data=data if data is not None else str(data_file(None)),
        splits=split_names(splits, ","),
        sample=sample,
        seed=seed,
        engines=split_names(engines, ","),
        models=tuple(model or (BUNDLED,)),
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
        results = run(settings, out, bar, resume=resume)
    tables = write(results, out)
    whole = [table for table in tables if table.title.endswith(ALL_SPLITS)]
    report_results(whole, out, skipped=results.unavailable, measured=bool(results.rows))


@bench.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of `bench jsonschemabench`.")],
    second: Annotated[Path, typer.Argument(metavar="FOLDER", help="Another one.")],
) -> None:
    """Compare two runs of JSONSchemaBench: the same schemas, models and engines, with intervals."""
    from constrained.bench.jsonschemabench.compare import compare as compare_runs
    from constrained.bench.jsonschemabench.compare import differing_settings

    lines = [render_tables(compare_runs(first, second))]
    if different := differing_settings(first, second):
        lines += ["settings that differ:", *(f"  {line}" for line in different)]
    emit("\n".join(lines))


@bench.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of `bench jsonschemabench`.")],
) -> None:
    """Rewrite the reports of a folder from its rows; the run may still be in progress."""
    import json

    from constrained.bench.harness.results import FACTS
    from constrained.bench.jsonschemabench import SchemaBenchResults, write
    from constrained.bench.jsonschemabench.run import read_rows

    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        rows = read_rows(folder)
        results = SchemaBenchResults(rows, facts["versions"], {}, facts)
        tables = write(results, folder)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(
            f"{str(folder)!r} has no readable results: {error}",
            action="name the folder of `constrained bench jsonschemabench --out`",
        ) from None
    if not tables:
        raise BadInput(f"{str(folder)!r} has no rows yet")
    report_results(tables, folder)
