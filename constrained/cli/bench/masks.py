"""`constrained bench masks` and `bench memos`: what masks cost, engine beside engine, and where they come from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.cli.bench.common import Data, ProgressBar, bench, data_file, render_tables
from constrained.cli.exit_status import CommandFailed, emit

if TYPE_CHECKING:
    from constrained.evaluate.masks.run import MaskBenchResults


@bench.command(
    epilog="""\b
Examples:
  constrained bench masks --sample 50 --engines constrained,llguidance
  constrained bench masks --sample 600 --seed 1 --warm --batch 64 --out results/today
  constrained bench masks --sample 20 --engines constrained,llguidance --compare

The engines other than this library come with: pip install 'constrained-generation[bench]'
"""
)
def masks(
    data: Data = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="Schemas to draw; 0: all.")
    ] = 600,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same schemas.")] = 0,
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines",
            metavar="A,B,C",
            help="In this order; MODULE:CLASS for one of your own "
            "[default: constrained,llguidance,glrmask,xgrammar,outlines].",
        ),
    ] = None,
    vocabulary: Annotated[
        str,
        typer.Option(
            "--vocabulary",
            metavar="NAME_OR_FOLDER",
            help="tekken (131,072 tokens, with mistral-common), or a Hugging Face tokenizer.",
        ),
    ] = "tekken",
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="For one schema with one engine.")
    ] = 120.0,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", metavar="GIB", help="For the process of an engine.")
    ] = 8.0,
    warm: Annotated[
        bool, typer.Option("--warm", help="Also measure each schema when it is requested again.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=0, help="Also measure N states in one call.")
    ] = 0,
    threads: Annotated[int, typer.Option("--threads", metavar="N", min=1, help="Of each engine.")] = 1,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also compare all masks with the first engine's (small samples)."),
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows, summary and plot go.")
    ] = Path("bench-masks"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Replay recorded JSON token by token: what masks cost, and whether they are right.

    Engines run one after another, each in a process of its own. The tables go to standard output; raw rows, summary,
    tables and a plot go to a folder.
    """
    from constrained.evaluate.masks import MaskBenchSettings, run  # numpy, which --help can do without

    settings = MaskBenchSettings(
        data=data_file(data),
        sample=sample,
        seed=seed,
        engines=_names(engines),
        vocabulary=vocabulary,
        time_limit=time_limit,
        memory_limit=memory_limit,
        warm=warm,
        batch=batch,
        threads=threads,
        compare=compare,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar)
    emit(_rendered(results))
    for one in results.engines:
        if one.unavailable:
            print(f"not measured: {one.engine}: {one.unavailable}", file=sys.stderr)
    print(f"written to {out}", file=sys.stderr)
    if not results.sections:
        raise CommandFailed(2)


@bench.command(
    epilog="""\b
Example:
  constrained bench memos --sample 300 --seed 1
"""
)
def memos(
    data: Data = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="Schemas to draw; 0: all.")
    ] = 300,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same schemas.")] = 0,
    vocabulary: Annotated[
        str,
        typer.Option(
            "--vocabulary",
            metavar="NAME_OR_FOLDER",
            help="tekken (131,072 tokens, with mistral-common), or a Hugging Face tokenizer.",
        ),
    ] = "tekken",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Replay recorded JSON with this library alone: which memo answers a mask, and what a miss costs."""
    from constrained.evaluate.masks.memo_stats import format_memo_stats, measure
    from constrained.evaluate.masks.workload import load_bench_vocabulary, prepare
    from constrained.evaluate.masks.workload import sample as draw

    tokens, _ = load_bench_vocabulary(vocabulary)
    with ProgressBar(quiet) as bar:
        cases = [prepare(row, tokens) for row in draw(data_file(data), sample, seed)]
        measured = measure(cases, tokens, lambda done, total: bar("replaying", done, total))
    emit("\n".join(format_memo_stats(measured)))


def _names(listed: str | None) -> tuple[str, ...]:
    if listed is None:
        from constrained.evaluate.masks.engines import DEFAULT_ENGINES

        return DEFAULT_ENGINES
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _rendered(results: MaskBenchResults) -> str:
    compared = [
        f"masks of {engine} against the first engine: {tally}"
        for engine, tally in results.differences.items()
    ]
    return "\n".join([render_tables(results.sections), *compared])
