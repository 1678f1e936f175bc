"""The command `eval`: what extraction gets right on documents whose right values are known."""

from __future__ import annotations

import contextlib
import json as json_module
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from constrained.cli import inputs
from constrained.cli.exit_status import BadInput, CommandFailed, emit
from constrained.cli.extraction_options import ExtractionOptions, FilesOptions
from constrained.cli.options import (
    ConstraintOptions,
    DecodingOptions,
    JsonOptions,
    Verbosity,
    with_option_groups,
)

if TYPE_CHECKING:
    from constrained.constraint import Constraint
    from constrained.extraction.files.results import ResultRow
    from constrained.extraction.values.scoring import FieldScore

EVAL_EPILOG = """\b
Examples:
  constrained eval labelled.jsonl -t models.py:Letter
  constrained eval docs.csv gold.jsonl --id-column key -t models.py:Letter --out few.jsonl
  constrained eval labelled.jsonl -t models.py:Letter --examples examples.jsonl --against few.jsonl
  constrained eval labelled.jsonl -t models.py:Letter --results results.jsonl

\b
Gold values say what is right: JSON in the column "gold" (--gold-column). They belong to the documents
with their ids; where a file GOLD has no ids, to the documents in their order.
"""
_COLUMNS = ("text_column", "id_column")


@with_option_groups
def evaluate(
    *,
    documents: Annotated[
        str,
        typer.Argument(
            metavar="DOCUMENTS", help="Files of documents, as of extract: one file, or a pattern."
        ),
    ],
    gold: Annotated[
        str | None,
        typer.Argument(metavar="GOLD", help="File of the gold values [default: a column of DOCUMENTS]."),
    ] = None,
    target: ConstraintOptions,
    gold_column: Annotated[
        str, typer.Option("--gold-column", metavar="NAME", help="Column of the gold values.")
    ] = "gold",
    results: Annotated[
        str | None,
        typer.Option(
            "--results",
            metavar="FILE",
            help="Score what --out of extract or eval has written; no model runs.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="FILE", help="Compare with the results of an earlier run."),
    ] = None,
    worst: Annotated[
        int, typer.Option("--worst", metavar="N", min=0, help="Documents shown that have the most faults.")
    ] = 5,
    files: FilesOptions,
    extraction: ExtractionOptions,
    decoding: DecodingOptions,
    json: JsonOptions,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Extract values from documents whose right values are known, and count the fields that are right.

    The table has a line for each field, by JSON pointer: how many values are asked for, and how many of them are right
    (with the 95 % interval of the share), wrong and missing; invented ones stand where no value is right. The order of
    arrays does not count. With --out, the results are written as extract writes them, and have a column "scores".
    """
    constraint = inputs.read_constraint(target, json, for_generation=True)
    _check(documents, gold, results, files, (files, extraction, decoding))
    from constrained.extraction.files.labelled import gold_by_document
    from constrained.extraction.files.records import Columns, expand_inputs
    from constrained.extraction.values.scoring import score_fields

    texts = expand_inputs([documents])
    alone = results is not None and gold is None
    right, by_order = gold_by_document(
        None if alone else texts,
        texts if gold is None else expand_inputs([gold]),
        Columns(files.text_column, files.id_column),
        gold_column,
        constraint,
    )
    before = None if against is None else _read(against, right)

    def score(row: ResultRow) -> list[FieldScore]:
        return score_fields(right[row.id], None if row.value is None else json_module.loads(row.value))

    if results is not None:
        rows, settings = _read(results, right), _settings_beside(results)
    else:
        rows, settings = _extract(documents, constraint, files, extraction, decoding, score, quiet=quiet)
    rows = {id: rows[id] for id in right if id in rows}
    scores = {id: score(row) for id, row in rows.items()}
    from constrained.cli import evaluation_report as report

    matched = "order" if by_order else "id"
    lines = [f"{len(rows)} documents, gold values by {matched}{report.failures(rows.values())}"]
    if left := len(right) - len(rows):
        lines.append(f"{left} documents have no result: left out")
    if settings is not None:
        lines.append(f"settings: {report.settings_text(settings)}")
    lines += ["", *report.field_table(scores), *report.worst_documents(scores, rows, worst)]
    if before is not None and against is not None:
        earlier = {id: score(row) for id, row in before.items() if id in scores}
        lines += ["", *report.comparison(scores, earlier, against, settings, _settings_beside(against))]
    emit("\n".join(lines).encode("utf-8", "backslashreplace").decode("utf-8"))


def _check(
    documents: str, gold: str | None, results: str | None, files: FilesOptions, groups: Sequence[Any]
) -> None:
    if "-" in (documents, gold, results, files.out):
        raise BadInput(
            "eval reads files twice, and prints its tables on standard output", action="name a file"
        )
    for group in groups if results is not None else ():
        for option in fields(group):
            if option.name not in _COLUMNS and getattr(group, option.name) != option.default:
                raise BadInput(
                    f"--{option.name.replace('_', '-')} does not go with --results: no model runs",
                    action="leave one of them out",
                )
    for name in ("resume", "errors", "retry_errors", "details"):
        if files.out is None and getattr(files, name):
            raise BadInput(f"--{name.replace('_', '-')} needs --out", action="write --out results.jsonl")


def _read(results: str, right: Mapping[str, Any]) -> dict[str, ResultRow]:
    """The results of a file for documents with a gold value."""
    from constrained.extraction.files.labelled import read_results
    from constrained.extraction.files.records import expand_inputs

    rows = {id: row for id, row in read_results(expand_inputs([results])).items() if id in right}
    if not rows:
        raise BadInput(
            f"{results} has no result of a document with a gold value", action="check the ids of both"
        )
    return rows


def _extract(
    documents: str,
    constraint: Constraint,
    files: FilesOptions,
    extraction: ExtractionOptions,
    decoding: DecodingOptions,
    score: Any,
    *,
    quiet: bool,
) -> tuple[dict[str, ResultRow], dict[str, Any]]:
    """Results of all documents, and the settings that they depend on."""
    from constrained.cli.extract_files import FilesRun
    from constrained.extraction.files.labelled import read_results

    fresh: dict[str, ResultRow] = {}

    def scores(row: ResultRow) -> list[dict[str, Any]]:
        fresh[row.id] = row
        return [asdict(one) for one in score(row)]

    verbosity = Verbosity.of(stats=False, quiet=quiet)
    run = FilesRun(
        [documents], constraint, files, extraction, decoding, verbosity, quiet=quiet, more={"scores": scores}
    )
    settings = run.settings()
    with contextlib.suppress(CommandFailed):  # documents without a value are counted as such
        run.start()
    if files.out is None:
        return fresh, settings
    names = [files.out] if files.errors is None else [files.out, str(files.errors)]
    return read_results(names), settings


def _settings_beside(results: str) -> dict[str, Any] | None:
    """The settings of the run that wrote a file of results, if they stand beside it."""
    with (
        contextlib.suppress(OSError, ValueError, KeyError, TypeError),
        open(f"{results}.run.json", encoding="utf-8") as file,
    ):
        settings: dict[str, Any] = json_module.load(file)["settings"]
        return settings
    return None
