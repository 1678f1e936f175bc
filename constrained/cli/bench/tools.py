"""`constrained bench tools`: the cost of many tools that change from request to request."""

from __future__ import annotations

from typing import Annotated

import typer

from constrained.cli.bench.common import Seed, Vocabulary, bench
from constrained.cli.exit_status import emit


@bench.command()
def tools(
    sizes: Annotated[
        list[int] | None,
        typer.Option("--tools", metavar="N", min=1, help="Tools of a request, several times."),
    ] = None,
    engines: Annotated[
        list[str] | None, typer.Option("--engine", metavar="NAME", help="Engines, several times.")
    ] = None,
    requests: Annotated[
        int, typer.Option("--requests", metavar="N", min=2, help="Requests of each size.")
    ] = 6,
    changed: Annotated[
        int, typer.Option("--changed", metavar="N", min=0, help="Tools that change from request to request.")
    ] = 1,
    seed: Seed = 0,
    vocabulary: Vocabulary = "tekken",
) -> None:
    """Measure requests with many tools: first mask, masks along a call, memory; engines in turn, in one process.

    Times are processor times of the process, with one thread.
    """
    from constrained.evaluate.many_tools import format_tools, measure_tools
    from constrained.evaluate.masks.workload import load_bench_vocabulary

    _, data = load_bench_vocabulary(vocabulary)
    costs = measure_tools(
        engines or ["constrained"],
        data,
        sizes or [10, 100, 500],
        requests=requests,
        changed=changed,
        seed=seed,
    )
    emit("\n".join(format_tools(costs)))
