"""`constrained bench speed`: tokens per second, this library beside others and beside no constraint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from constrained.bench.commands.common import (
    Out,
    ProgressBar,
    Quiet,
    Seed,
    bench,
    report_results,
    split_names,
)


@bench.command(
    epilog="""\b
Examples:
  constrained bench speed --sample 20
  constrained bench speed --model smollm2 --data "$CONSTRAINED_DATA" --sample 60 --max-tokens 120
  constrained bench speed --random 60m --sample 10 --out results/today
  constrained bench speed --random 8b --device cuda --dtype bfloat16 --engine compiled
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
            help="1m, 60m, 250m, 1b or 8b: random weights with recorded outputs, instead of a model.",
        ),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            "--vocabulary",
            metavar="NAME",
            help="Vocabulary of random weights: bundled, tekken, or a Hugging Face tokenizer.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="cpu or cuda [default: a GPU, if there is one]."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", metavar="NAME", help="Of the weights: float32, bfloat16, ...")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar="NAME", help="Of this library's passes: auto, eager, static or compiled."
        ),
    ] = "auto",
    sample: Annotated[int, typer.Option("--sample", metavar="N", min=1, help="Held-out extractions.")] = 30,
    seed: Seed = 0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=16, help="Token limit.")] = 256,
    threads: Annotated[
        int, typer.Option("--threads", metavar="N", min=1, help="Threads of torch and of the engines.")
    ] = 1,
    exact: Annotated[bool, typer.Option("--exact", help="Also measure the sampler cars.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FOLDER",
            help="Public schemas, texts and tool calls, in turn, instead of held-out extractions.",
        ),
    ] = None,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="T", min=0, help="Of all decoding methods; 0: greedy.")
    ] = 0.0,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="A;B;C", help="Decoding methods to measure [default: all]."),
    ] = None,
    out: Out = Path("bench-speed"),
    quiet: Quiet = False,
) -> None:
    """Generate: tokens per second of generate of transformers, alone and with engines' masks, and of this library."""
    from constrained.bench.harness.results import RunRecord
    from constrained.bench.speed import SpeedSettings, run
    from constrained.bench.speed import report as tables

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
        engine,
        data,
        temperature,
    )
    record = RunRecord(settings)
    with ProgressBar(quiet) as bar:
        results = run(settings, bar)
    sections = [tables.section(results)]
    if "constrained" in results.by_method:
        sections.append(tables.each_text(results))
    for name, count in results.skipped.items():
        print(f"{name}: {count} texts left out", file=sys.stderr)
    tables.write(sections, results.as_json(), out, record)
    report_results(sections, out)
