"""`constrained bench speed`: tokens per second, this library beside others and beside no constraint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained.cli.bench.common import ProgressBar, bench, render_tables, split_names
from constrained.cli.exit_status import BadInput, emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench speed --sample 20
  constrained bench speed --random 60m --sample 10 --out results/today
  constrained bench speed --random 8b --device cuda --dtype bfloat16
  constrained bench speed --budget --batches 1,4,16 --sample 64
"""
)
def speed(
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="bundled, or what transformers loads.")
    ] = "bundled",
    random: Annotated[
        str | None,
        typer.Option(
            "--random",
            metavar="SHAPE",
            help="1m, 60m, 250m, 1b or 8b: random weights, made to say recorded texts, instead of a model.",
        ),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            "--vocabulary",
            metavar="NAME",
            help="Of random weights: bundled, tekken, a Hugging Face tokenizer.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="cpu or cuda [default: a GPU, if there is one]."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", metavar="NAME", help="float32, bfloat16, ... of the weights.")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", metavar="N", min=1, help="Held-out extractions.")] = 30,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Same seed, same prompts.")] = 0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=16, help="Of a text.")] = 256,
    threads: Annotated[int, typer.Option("--threads", metavar="N", min=1, help="Of torch and engines.")] = 1,
    exact: Annotated[bool, typer.Option("--exact", help="Measure the sampler cars, too.")] = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="A;B;C", help="Ways to measure [default: all].")
    ] = None,
    budget: Annotated[
        bool,
        typer.Option(
            "--budget", help="Instead: batches with guesses against without, where they pay or not."
        ),
    ] = False,
    batches: Annotated[
        str, typer.Option("--batches", metavar="N,N,N", help="Sizes of batches, with --budget.")
    ] = "1,4,16",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows and tables go.")
    ] = Path("bench-speed"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Write texts: tokens per second by generate of transformers, with other engines' masks, and by this library."""
    from dataclasses import asdict

    from constrained.evaluate.speed import SpeedSettings, run
    from constrained.evaluate.speed import report as tables

    settings = SpeedSettings(
        model,
        random,
        vocabulary,
        device,
        dtype,
        sample,
        seed,
        max_tokens,
        threads,
        exact,
        split_names(only, ";"),
    )
    if budget:
        from constrained.evaluate.speed.run import run_info
        from constrained.evaluate.speed.trials import measure

        sizes = _sizes(batches)
        with ProgressBar(quiet) as bar:
            trials, measured = measure(settings, sizes, bar)
        facts = run_info(measured, settings)
        rows = {"settings": asdict(settings), "about": facts, "trials": [asdict(one) for one in trials]}
        section = tables.trials(trials, facts)
    else:
        with ProgressBar(quiet) as bar:
            results = run(settings, bar)
        rows, section = results.as_json(), tables.section(results)
        for name, count in results.skipped.items():
            print(f"{name}: {count} texts left out", file=sys.stderr)
    emit(render_tables([section]))
    tables.write([section], rows, out, " ".join(["constrained", *sys.argv[1:]]))
    print(f"written to {out}", file=sys.stderr)


def _sizes(listed: str) -> tuple[int, ...]:
    if all(size.strip().isdecimal() and int(size) for size in listed.split(",")):
        return tuple(int(size) for size in listed.split(","))
    raise BadInput(f"{listed!r} is no list of numbers", action="pass --batches 1,4")
