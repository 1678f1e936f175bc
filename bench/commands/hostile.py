"""`constrained bench hostile`: what adversarial constraints cost, or that they are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.bench.commands.common import (
    Data,
    ProgressBar,
    Quiet,
    Seed,
    Vocabulary,
    bench,
    data_file,
    split_names,
)
from constrained.cli.exit_status import BadInput, emit

if TYPE_CHECKING:
    from constrained.bench.hostile.case import Case


@bench.command(
    epilog="""\b
Examples:
  constrained bench hostile
  constrained bench hostile --all --engines constrained
  constrained bench hostile --case palindromes --case 'minProperties 2'
  constrained bench hostile --schemas 600 --engines constrained

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
    schemas: Annotated[
        int | None,
        typer.Option(
            "--schemas", metavar="N", min=0, help="So many real schemas instead; 0: all of the data."
        ),
    ] = None,
    data: Data = None,
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

    Real schemas (--schemas) have a line only if they take more than 1 s to compile, 50 ms for a mask or 256 MiB, or were not
    followed to the end; quantiles of all of them are below.
    """
    from constrained.bench.hostile import Limits, Rows, exceeds, measure_all, quantiles, table, tally
    from constrained.bench.masks.workload import load_bench_vocabulary

    cases = _named(case, everything) if schemas is None else _real(data_file(data), schemas, seed)
    _, tokens = load_bench_vocabulary(vocabulary)
    limits = Limits(time_limit, int(memory_limit * 2**30), steps)
    begun = False

    def show(rows: Rows) -> None:
        nonlocal begun
        drawn = table(rows)
        if schemas is not None and not any(exceeds(one) for found in rows.values() for one in found.values()):
            return
        head = [] if begun else drawn.markdown_head()
        begun = True
        emit("\n".join([*head, *drawn.markdown_lines()]))

    with ProgressBar(quiet) as bar:
        rows, skipped = measure_all(cases, split_names(engines, ","), tokens, limits, seed, bar, show)
    if schemas is not None:
        emit("\n".join([*([] if begun else table(rows).markdown_head()), *quantiles(rows)]))
    emit(tally(rows))
    for engine, why in skipped.items():
        print(f"not measured: {engine}: {why}", file=sys.stderr)


def _named(names: list[str] | None, everything: bool) -> dict[str, Case]:
    from constrained.bench.hostile.cases import CASES, FAMILIES

    readable = [name for name, one in CASES.items() if one.notation is not None]
    for name in names or ():
        if name not in readable:
            raise BadInput(
                f"there is no case {name!r} that engines can read",
                action=f"name one of {', '.join(FAMILIES)}",
            )
    return {name: CASES[name] for name in names or (readable if everything else FAMILIES)}


def _real(path: Path, count: int, seed: int) -> dict[str, Case]:
    from constrained.bench.hostile.case import schema_case
    from constrained.bench.masks.workload import is_structural_tag, sample

    rows = sample(path, count, seed)
    return {row["id"]: schema_case(row["schema"]) for row in rows if not is_structural_tag(row["schema"])}
