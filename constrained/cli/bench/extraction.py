"""`constrained bench extraction`: documents per second of a batch and of a loop, and peak memory."""

from __future__ import annotations

from typing import Annotated

import typer

from constrained.cli.bench.common import bench, split_counts
from constrained.cli.exit_status import emit


@bench.command(
    epilog="""\b
Examples:
  constrained bench extraction
  constrained bench extraction --batch-sizes 8,32,64 --documents 200 --memory 100,1000
"""
)
def extraction(
    batch_sizes: Annotated[
        str, typer.Option("--batch-sizes", metavar="N,N,N", help="Most documents in a forward pass.")
    ] = "1,8,32",
    documents: Annotated[
        int, typer.Option("--documents", metavar="N", min=1, help="Documents of each run.")
    ] = 200,
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="N,N,N",
            help="Peak memory of processes that read so many documents; 0: not measured.",
        ),
    ] = "0",
) -> None:
    """Extract with the bundled model from generated documents: extract_many beside a loop of extract.

    The two runs of a pair follow each other directly, so their ratio says more than their times.
    """
    import torch

    import constrained
    from constrained.evaluate.extraction import measure_peak_memory, measure_throughput

    sizes = split_counts(batch_sizes, "--batch-sizes")
    counts = [] if memory == "0" else split_counts(memory, "--memory")
    torch.set_num_threads(1)
    model = constrained.load()
    emit("batch size  loop, documents/s  extract_many, documents/s  ratio  values")
    for pair in measure_throughput(model, sizes, documents):
        values = "equal" if pair.equal else "DIFFERENT"
        emit(
            f"{pair.batch_size:10}  {1 / pair.loop_seconds:17.2f}  {1 / pair.many_seconds:25.2f}  "
            f"{pair.ratio:5.2f}  {values}"
        )
    for count, peak in measure_peak_memory(counts, max(sizes)):
        emit(f"peak memory, {count} documents: {peak:.0f} MiB")
