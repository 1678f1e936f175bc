"""`constrained bench spans`: the cost of grounding in a long document."""

from __future__ import annotations

from typing import Annotated

import typer

from constrained.cli.bench.common import Seed, Vocabulary, bench
from constrained.cli.exit_status import emit


@bench.command()
def spans(
    characters: Annotated[
        int, typer.Option("--characters", metavar="N", min=1000, help="Length of the document.")
    ] = 200_000,
    count: Annotated[
        int, typer.Option("--spans", metavar="N", min=1, help="Spans, and values to find.")
    ] = 200,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, help="Of each time the least of N rounds.")
    ] = 3,
    seed: Seed = 0,
    vocabulary: Vocabulary = "tekken",
) -> None:
    """Measure spans of a long document: time to compile, masks, and the search for values.

    Times are those of the thread, so other processes count only for what they do to the caches.
    """
    from constrained.evaluate.masks.workload import load_bench_vocabulary
    from constrained.evaluate.spans import format_spans, measure_spans

    tokens, _ = load_bench_vocabulary(vocabulary)
    emit("\n".join(format_spans(measure_spans(tokens, characters, count, seed, rounds))))
