"""`constrained bench device`: a device against the CPU, and against what its memory allows."""

from __future__ import annotations

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
    split_counts,
)


@bench.command(
    epilog="""\b
Example:
  constrained bench device --shapes 1b,8b
"""
)
def device(
    device: Annotated[str, typer.Option("--device", help="Of torch: cuda, cuda:1, cpu.")] = "cuda",
    shapes: Annotated[
        str, typer.Option("--shapes", metavar="A,B", help="Models of random weights that are timed.")
    ] = "1b,8b",
    vocabulary: Annotated[
        str | None, typer.Option("--vocabulary", help="Of the models; by default the shape's own.")
    ] = None,
    engines: Annotated[
        str, typer.Option("--engines", metavar="A,B", help="Some of eager, static, compiled.")
    ] = "eager,static,compiled",
    nodes: Annotated[str, typer.Option("--nodes", metavar="N,N", help="Tokens of a pass.")] = "1,8,64",
    context: Annotated[
        int, typer.Option("--context", metavar="N", min=1, help="Tokens of the prompt.")
    ] = 2048,
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=16, help="Tokens of a completion.")
    ] = 256,
    small: Annotated[
        bool, typer.Option("--small", help="Small kernels and few repeats: to see that it runs.")
    ] = False,
    seed: Seed = 0,
    out: Out = Path("bench-device"),
    quiet: Quiet = False,
) -> None:
    """Check kernels and texts of a device against the CPU, and time steps against what their bytes need."""
    from constrained.bench.device.attention import AttentionBenchSettings
    from constrained.bench.device.kernels import KernelBenchSettings
    from constrained.bench.device.run import DeviceBenchSettings, run

    settings = DeviceBenchSettings(
        device=device,
        shapes=tuple(shapes.split(",")),
        vocabulary=vocabulary,
        engines=tuple(engines.split(",")),
        nodes=split_counts(nodes, "--nodes"),
        context=context,
        tokens=tokens,
        texts=4 if small else 8,
        repeats=2 if small else 20,
        seed=seed,
        kernels=KernelBenchSettings((1, 5), 320, 1, 2, 16, 70, 1 << 16, seed)
        if small
        else KernelBenchSettings(seed=seed),
        attention=AttentionBenchSettings((30, 300), (1, 5), 4, 2, 16, 1 << 16, seed)
        if small
        else AttentionBenchSettings(seed=seed),
    )
    with ProgressBar(quiet) as bar:
        tables = run(settings, out, bar)
    report_results(tables, out)
