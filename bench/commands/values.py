"""`constrained bench values`: how often the values are right, this library beside other engines' masks."""

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
  constrained bench values --model smollm2 --tasks documents,long-documents --limit 0
  constrained bench values --model smollm2 --limit 20 --out runs/values --resume
  constrained bench values --model smollm2 --tasks e2e,snips --engines constrained,xgrammar --temperature 1
"""
)
def values(
    model: ChatModel = "bundled",
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="A,B,C",
            help="documents, long-documents, orders and forms, which are the project's own, e2e, snips, e2e-lists, snips-lists, e2e-strict, snips-strict, banking77, bfcl-... [default: all].",
        ),
    ] = None,
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B,C", help="In this order; vllm: this library in vLLM.")
    ] = "constrained,xgrammar,llguidance,outlines,unconstrained",
    limit: Limit = 20,
    seed: Seed = 0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", min=1, help="Token limit.")] = 192,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="T", min=0, help="Of all engines; 0: greedy.")
    ] = 0.0,
    threads: Threads = 1,
    data: ValuesData = None,
    out: Out = Path("bench-values"),
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Extract, choose and call tools with a real model: fields right, invented, whole values; the same prompts for all engines.

    Values are compared with those that are known to be right. Rows of one folder are shown together, whichever call wrote them.
    """
    from constrained.bench.values import ValueSettings, run, write
    from constrained.bench.values.items import PUBLIC, TASKS

    named = split_names(tasks, ",") or TASKS
    settings = ValueSettings(
        data_file(data, VALUES_FILE) if set(named) & set(PUBLIC) else None,
        model,
        named,
        split_names(engines, ","),
        limit,
        seed,
        max_tokens,
        temperature,
        threads,
    )
    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar, resume=resume)
    report_results(write(results, out), out, skipped=results.unavailable, measured=bool(results.rows))
