"""`constrained bench`: measurements, of this library and of others beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.cli.outcome import BadInput, Failed, emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from constrained.evaluate.masks.report import Section
    from constrained.evaluate.masks.run import Results

DATA_VARIABLE = "CONSTRAINED_DATA"
DATA_FILE = "maskbench-dev.jsonl.gz"

bench = typer.Typer(
    help="Measure this library, and others beside it.", rich_markup_mode=None, no_args_is_help=True
)


@bench.callback()
def _bench() -> None:
    pass


@bench.command(
    epilog="""\b
Examples:
  constrained bench masks --sample 50 --engines constrained,llguidance
  constrained bench masks --sample 600 --seed 1 --warm --batch 64 --out results/today
  constrained bench masks --sample 20 --engines constrained,llguidance --compare

The engines other than this library come with: pip install 'constrained[bench]'
"""
)
def masks(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help=f"MaskBench data, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{DATA_FILE}].",
        ),
    ] = None,
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
    from constrained.evaluate.masks import Settings, run  # numpy, which --help can do without

    settings = Settings(
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
    with Bar(quiet) as bar:
        results = run(settings, out, bar)
    emit(_rendered(results))
    for one in results.engines:
        if one.unavailable:
            print(f"not measured: {one.engine}: {one.unavailable}", file=sys.stderr)
    print(f"written to {out}", file=sys.stderr)
    if not results.sections:
        raise Failed(2)


@bench.command(
    epilog="""\b
Example:
  constrained bench memos --sample 300 --seed 1
"""
)
def memos(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help=f"MaskBench data, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{DATA_FILE}].",
        ),
    ] = None,
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
    from constrained.evaluate.masks.memos import lines, measure
    from constrained.evaluate.masks.workload import prepare, read_vocabulary
    from constrained.evaluate.masks.workload import sample as draw

    tokens, _ = read_vocabulary(vocabulary)
    with Bar(quiet) as bar:
        cases = [prepare(row, tokens) for row in draw(data_file(data), sample, seed)]
        measured = measure(cases, tokens, lambda done, total: bar("replaying", done, total))
    emit("\n".join(lines(measured)))


@bench.command(
    epilog="""\b
Examples:
  constrained bench faithful --tasks trees,json/small --sizes 10,100
  constrained bench faithful --samplers local,rejection,cars --repeats 5 --out results/today
  constrained bench faithful --model bundled --tasks json --budget 20000
"""
)
def faithful(
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", metavar="A,B,C", help="Tasks or families [default: all]."),
    ] = None,
    samplers: Annotated[
        str | None,
        typer.Option("--samplers", metavar="A;B;C", help="What to compare, with ; between [default: all]."),
    ] = None,
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N,N", help="Texts of a set.")] = "10,30,100,300",
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Sets of each size.")] = 1,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Same seed, same texts.")] = 0,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="For a set that is worth drawing.")
    ] = 20.0,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="n-gram: each task's own; bundled; or what the other commands take.",
        ),
    ] = "n-gram",
    budget: Annotated[
        int,
        typer.Option("--budget", metavar="N", min=1, help="Beginnings of texts to visit for an exact law."),
    ] = 50_000,
    learning: Annotated[
        int,
        typer.Option("--learning", metavar="N", min=0, help="Texts over which learning is shown; 0: none."),
    ] = 100,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help=f"MaskBench data, for what awrs asks [default: ${DATA_VARIABLE}/{DATA_FILE}, if set].",
        ),
    ] = None,
    schemas: Annotated[
        int, typer.Option("--schemas", metavar="N", min=0, help="Schemas to draw from it; 0: all.")
    ] = 30,
    vocabularies: Annotated[
        str | None,
        typer.Option(
            "--vocabularies",
            metavar="N,N,N",
            help="Ask awrs in the first N tokens of tekken as well (with mistral-common).",
        ),
    ] = None,
    predicate: Annotated[
        float,
        typer.Option("--predicate", metavar="MS", min=0.0, help="Time of a dear predicate; 0: leave it out."),
    ] = 1.0,
    genlm: Annotated[
        str | None,
        typer.Option(
            "--genlm", metavar="PYTHON", help="An interpreter that has genlm-control: measure it, too."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows, summary and plot go.")
    ] = Path("bench-faithful"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Draw texts of small languages with every sampler: how far they are from the exact law, and what they cost.

    The exact laws are written down by visiting every text. The tables go to standard output; raw rows, summary,
    tables and a plot go to a folder.
    """
    from constrained.evaluate.faithful import Settings, run

    settings = Settings(
        tasks=listed_names(tasks, ","),
        samplers=listed_names(samplers, ";"),
        sizes=_numbers(sizes),
        repeats=repeats,
        seed=seed,
        time_limit=time_limit,
        model=model,
        budget=budget,
        learning=learning,
        data=data_file(data) if data is not None or os.environ.get(DATA_VARIABLE) else None,
        schemas=schemas,
        vocabularies=_numbers(vocabularies) if vocabularies else (),
        predicate=predicate,
        genlm=genlm,
    )
    with Bar(quiet) as bar:
        results = run(settings, out, bar)
    emit(printed(results.sections))
    for what, why in results.skipped.items():
        print(f"not measured: {what}: {why}", file=sys.stderr)
    print(f"written to {out}", file=sys.stderr)
    if not (results.found.rows or results.found.questions):
        raise Failed(2)


@bench.command(
    epilog="""\b
Examples:
  constrained bench replay
  constrained bench replay --sample 100 --nodes 16 --out results/today
"""
)
def replay(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help=f"MaskBench data, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{DATA_FILE}].",
        ),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", metavar="N", min=1, help="Texts, one a schema.")] = 800,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same texts.")] = 0,
    nodes: Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Guessed tokens a pass.")] = 64,
    vocabulary: Annotated[
        str,
        typer.Option(
            "--vocabulary",
            metavar="NAME_OR_FOLDER",
            help="tekken (131,072 tokens, with mistral-common), or a Hugging Face tokenizer.",
        ),
    ] = "tekken",
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="A;B;C", help="Configurations to measure [default: all]."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where rows, tables and plot go.")
    ] = Path("bench-replay"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Guess recorded JSON ahead: tokens per forward pass, for every source of guesses alone and for all.

    No model runs: the recorded text is what it says. The tables go to standard output; rows, tables and a plot go to
    a folder.
    """
    from constrained.evaluate.replay import Settings, run
    from constrained.evaluate.replay.report import sections, write

    settings = Settings(
        data=data_file(data),
        sample=sample,
        seed=seed,
        nodes=nodes,
        vocabulary=vocabulary,
        only=listed_names(only, ";"),
    )
    with Bar(quiet) as bar:
        results = run(settings, bar)
    emit(printed(sections(results)))
    write(results, out, " ".join(["constrained", *sys.argv[1:]]))
    print(f"written to {out}", file=sys.stderr)


@bench.command(
    epilog="""\b
Example:
  constrained bench speed --sample 20
"""
)
def speed(
    sample: Annotated[int, typer.Option("--sample", metavar="N", min=1, help="Held-out extractions.")] = 30,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Same seed, same prompts.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Write with the bundled model: tokens per second against transformers' own generate, unconstrained."""
    from constrained.evaluate.speed import measure, section

    with Bar(quiet) as bar:
        found = measure(sample, seed, bar)
    emit(printed([section(found)]))


def listed_names(names: str | None, separator: str) -> tuple[str, ...]:
    """Names out of one option."""
    return tuple(name.strip() for name in (names or "").split(separator) if name.strip())


def _numbers(listed: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in listed.split(","))
    except ValueError:
        raise BadInput(f"{listed!r} is no list of numbers", action="pass --sizes 10,100") from None


def _names(listed: str | None) -> tuple[str, ...]:
    if listed is None:
        from constrained.evaluate.masks.engines import DEFAULT

        return DEFAULT
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def data_file(named: Path | None) -> Path:
    """The data that is named, or that of the environment.

    Raises:
        BadInput: there is none.
    """
    if named is not None:
        return named
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise BadInput(
            "no data is named",
            action=f"pass --data FILE, or set {DATA_VARIABLE} to the folder of {DATA_FILE}",
        )
    return Path(folder) / DATA_FILE


class Bar:
    """A progress bar on standard error, where somebody watches."""

    def __init__(self, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
            refresh_per_second=2,  # whatever the bar costs is measured along
        )
        self._task = self._bar.add_task("", total=None)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Shows what goes on."""
        self._bar.update(self._task, description=what, completed=done, total=total or None)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()


def _rendered(results: Results) -> str:
    compared = [
        f"masks of {engine} against the first engine: {tally}"
        for engine, tally in results.differences.items()
    ]
    return "\n".join([printed(results.sections), *compared])


def printed(sections: Sequence[Section]) -> str:
    """Tables for the terminal."""
    from rich.console import Console

    from constrained.evaluate.masks.report import table

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as captured:
        for section in sections:
            console.print(table(section))
            console.print()
    return captured.get().rstrip()
