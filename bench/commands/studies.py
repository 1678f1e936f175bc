"""The commands for those who change this library; a checkout has them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from constrained.bench.commands.common import Out, ProgressBar, Quiet, bench, report_results
from constrained.bench.device.settings import DeviceBenchSettings
from constrained.bench.fidelity.settings import FidelitySettings
from constrained.bench.harness.settings import data_file
from constrained.bench.hostile.settings import HostileSettings
from constrained.bench.prior.settings import PriorSettings
from constrained.bench.replay.settings import ReplaySettings
from constrained.bench.speed.settings import SpeedSettings
from constrained.cli.exit_status import BadInput, emit
from constrained.cli.options import with_option_groups

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
@with_option_groups
def hostile(
    *,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="NAME", help="Only this case; may be repeated.")
    ] = None,
    settings: HostileSettings,
    quiet: Quiet = False,
) -> None:
    """Compile hostile constraints and follow their masks, each in a process with limits.

    A table in Markdown goes to standard output: time to compile, the worst mask, the worst mask under a budget of tokens
    (milliseconds of processor time), and memory; or the error that refuses the constraint. Each line is written as soon as
    its case is measured.

    Real schemas (--schemas) have a line only if they take more than 1 s to compile, 50 ms for a mask or 256 MiB, or were not
    followed to the end; quantiles of all of them are below.
    """
    from constrained.bench.hostile.run import Rows, exceeds, measure_all, quantiles, table, tally
    from constrained.bench.masks.workload import load_bench_vocabulary

    real = settings.schemas is not None
    cases = _real(settings) if real else _named(case, settings.everything)
    _, tokens = load_bench_vocabulary(settings.vocabulary)
    begun = False

    def show(rows: Rows) -> None:
        nonlocal begun
        drawn = table(rows)
        if real and not any(exceeds(one) for found in rows.values() for one in found.values()):
            return
        head = [] if begun else drawn.markdown_head()
        begun = True
        emit("\n".join([*head, *drawn.markdown_lines()]))

    with ProgressBar(quiet) as bar:
        rows, skipped = measure_all(cases, settings, tokens, bar, show)
    if real:
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


def _real(settings: HostileSettings) -> dict[str, Case]:
    from constrained.bench.hostile.case import schema_case
    from constrained.bench.masks.workload import is_structural_tag, sample

    rows = sample(data_file(settings.data), settings.schemas or 0, settings.seed)
    return {row["id"]: schema_case(row["schema"]) for row in rows if not is_structural_tag(row["schema"])}


@bench.command(
    epilog="""\b
Examples:
  constrained bench speed --sample 20
  constrained bench speed --model smollm2 --data "$CONSTRAINED_DATA" --sample 60 --max-tokens 120
  constrained bench speed --random 60m --sample 10 --out results/today
  constrained bench speed --random 8b --device cuda --dtype bfloat16 --engine compiled
"""
)
@with_option_groups
def speed(*, settings: SpeedSettings, out: Out = Path("bench-speed"), quiet: Quiet = False) -> None:
    """Generate: tokens per second of generate of transformers, alone and with engines' masks, and of this library."""
    from constrained.bench.harness.results import RunRecord
    from constrained.bench.speed import report as tables
    from constrained.bench.speed.run import run

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


@bench.command(
    epilog="""\b
Examples:
  constrained bench replay
  constrained bench replay --sample 100 --nodes 16 --out results/today
  constrained bench replay --prior none --splits Github,Kubernetes
"""
)
@with_option_groups
def replay(*, settings: ReplaySettings, out: Out = Path("bench-replay"), quiet: Quiet = False) -> None:
    """Speculate on recorded JSON: tokens per forward pass, for every draft source alone, left out, and for all together.

    Rows that the prior was fitted to are left out.
    No model runs: the recorded tokens stand for its output. Tables go to standard output; rows, tables and a plot go to
    a folder.
    """
    from constrained.bench.harness.results import RunRecord
    from constrained.bench.replay.report import sections, write
    from constrained.bench.replay.run import run

    settings = replace(settings, data=data_file(settings.data))
    record = RunRecord(settings)
    with ProgressBar(quiet) as bar:
        results = run(settings, bar)
    write(results, out, record)
    report_results(sections(results), out)


@bench.command(
    epilog="""\b
Examples:
  constrained bench prior --out prior.json.gz
  constrained bench prior --data folder-of-json-files --schemas 2 --out ours.json.gz
"""
)
@with_option_groups
def prior(
    *,
    settings: PriorSettings,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file.")] = Path(
        "prior.json.gz"
    ),
    quiet: Quiet = False,
) -> None:
    """Count what JSON texts under many schemas have in common, for drafters to begin with.

    The file has counts of what occurs under several schemas, in bytes and not in tokens, and no text of the data as such.
    """
    from constrained.bench.prior.fit import fit

    with ProgressBar(quiet) as bar:
        found = fit(settings, bar)
    try:
        found.save(out)
    except OSError as error:
        raise BadInput(f"{str(out)!r} cannot be written: {error.strerror or error}") from None
    places = sum(map(len, found.slots.values()))
    emit(f"{places} places, {len(found.ngrams)} n-grams, {out.stat().st_size} bytes")


@bench.command(
    epilog="""\b
Examples:
  constrained bench fidelity --tasks trees,json/small --sizes 10,100
  constrained bench fidelity --samplers local,rejection,cars --repeats 5 --out results/today
  constrained bench fidelity --model bundled --tasks json --budget 20000
"""
)
@with_option_groups
def fidelity(*, settings: FidelitySettings, out: Out = Path("bench-fidelity"), quiet: Quiet = False) -> None:
    """Sample small languages with every sampler: distance from the exact conditional distribution, and costs.

    The exact distributions are computed by enumerating every sequence. Tables go to standard output; rows, summary,
    tables and a plot go to a folder.
    """
    from constrained.bench.fidelity.run import run

    with ProgressBar(quiet) as bar:
        results = run(settings, out, bar)
    measured = bool(results.measurements.rows)
    report_results(results.sections, out, skipped=results.skipped, measured=measured)


@bench.command(
    epilog="""\b
Example:
  constrained bench device --shapes 1b,8b
"""
)
@with_option_groups
def device(*, settings: DeviceBenchSettings, out: Out = Path("bench-device"), quiet: Quiet = False) -> None:
    """Check kernels and texts of a device against the CPU, and time steps against what their bytes need."""
    from constrained.bench.device.run import run

    with ProgressBar(quiet) as bar:
        tables = run(settings, out, bar)
    report_results(tables, out)
