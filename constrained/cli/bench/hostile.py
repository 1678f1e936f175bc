"""`constrained bench hostile`: what constraints that mean harm cost, or that they are refused."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from constrained.cli.bench.common import ProgressBar, Quiet, Seed, Vocabulary, bench, split_names
from constrained.cli.exit_status import BadInput, emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench hostile
  constrained bench hostile --all --engines constrained
  constrained bench hostile --case palindromes --case 'minProperties 2'

The engines other than this library come with: pip install 'constrained-generation[bench]'
"""
)
def hostile(
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="NAME", help="Only this case; may be repeated.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All cases that the tests have, not only one of each family.")
    ] = False,
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B,C", help="In this order; MODULE:CLASS for your own.")
    ] = "constrained,llguidance,xgrammar",
    vocabulary: Vocabulary = "tekken",
    time_limit: Annotated[
        int, typer.Option("--time-limit", metavar="SECONDS", min=1, help="For one case under one engine.")
    ] = 25,
    memory_limit: Annotated[
        float, typer.Option("--memory-limit", metavar="GIB", help="Of address space, for one case.")
    ] = 4.0,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Tokens of each text.")] = 40,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Compile hostile constraints and follow their masks, each in a process with limits.

    A table in Markdown goes to standard output: time to compile, the worst mask, the worst mask under a budget of tokens
    (milliseconds of processor time), and memory; or the error that refuses the constraint. Each line is written as soon as
    its case is measured.
    """
    from constrained.evaluate.hostile import Limits, Rows, measure_all, table, tally
    from constrained.evaluate.hostile.cases import CASES, FAMILIES
    from constrained.evaluate.masks.workload import load_bench_vocabulary

    readable = [name for name, one in CASES.items() if one.notation is not None]
    names = case or (readable if everything else list(FAMILIES))
    for name in names:
        if name not in readable:
            raise BadInput(
                f"there is no case {name!r} that engines can read",
                action=f"name one of {', '.join(FAMILIES)}",
            )
    _, tokens = load_bench_vocabulary(vocabulary)
    limits = Limits(time_limit, int(memory_limit * 2**30), steps)
    begun = False

    def show(rows: Rows) -> None:
        nonlocal begun
        drawn = table(rows)
        head = [] if begun else drawn.markdown_head()
        begun = True
        emit("\n".join([*head, *drawn.markdown_lines()]))

    with ProgressBar(quiet) as bar:
        rows, skipped = measure_all(names, split_names(engines, ","), tokens, limits, seed, bar, show)
    emit(tally(rows))
    for engine, why in skipped.items():
        print(f"not measured: {engine}: {why}", file=sys.stderr)
