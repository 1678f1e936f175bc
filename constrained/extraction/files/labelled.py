"""Labelled documents: gold values out of files, each for its document, and results that were written before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from constrained.automaton import Automaton, compile
from constrained.constraint import Constraint
from constrained.constraint.json_text import read_value
from constrained.errors import ConstrainedError, DocumentError, RejectedValue
from constrained.extraction.examples import accepts_text
from constrained.extraction.files.records import Columns, Row, file_rows, record_id, unique_records
from constrained.extraction.files.results import ResultRow
from constrained.vocabulary import Vocabulary


def gold_by_document(
    documents: Sequence[str] | None,
    gold: Sequence[str],
    columns: Columns,
    gold_column: str,
    constraint: Constraint,
) -> tuple[dict[str, Any], bool]:
    """Gold values, which say what is right, by the ids of documents.

    A gold value belongs to the document with its id. Where no row of `gold` has an id, and `documents` are other files,
    the first belongs to the first document, and so on.

    Args:
        documents: files of documents; None: the ids are those of `gold`.
        gold: files of gold values: JSON members in JSON Lines, JSON text in other files, or for a constraint that is
            not JSON the text that it accepts.
        columns: of `documents`; that of the id is also the one of `gold`.
        gold_column: of the gold values.
        constraint: which they have to satisfy.

    Returns:
        The values, and whether they belong to their documents by order.

    Raises:
        DocumentError: as `read_documents`; a gold value does not satisfy the constraint; a document has none, or one
            has no document; there are none.
    """
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    named = False
    constraint = constraint.without_document()
    for row, is_text in _rows(gold, Columns(gold_column, columns.id)):
        id = record_id(row, columns.id)
        if id in values:
            raise DocumentError(f"the id {id!r} is there twice: {places[id]} and {row.place}")
        cell = _cell(row, gold_column, "name the column of the gold values: --gold-column")
        try:
            values[id], places[id] = _gold_value(cell, constraint, is_text=is_text), row.place
        except ConstrainedError as error:
            raise DocumentError(
                f"{row.place}: the gold value does not fit {constraint.render()}: {error.summary}",
                error.problems,
                action="correct it, or the constraint",
            ) from error
        named |= id != row.default_id
    shown = ", ".join(gold)
    if not values:
        raise DocumentError(f"{shown} holds no gold values", action="write one for each document")
    if documents is None:
        return values, False
    there = {record.id: record.place for record in unique_records(documents, columns)}
    by_order = not named and documents != gold
    if by_order:
        if len(there) != len(values):
            where = (
                [*places.values()][len(there)] if len(there) < len(values) else [*there.values()][len(values)]
            )
            raise DocumentError(
                f"there are {len(there)} documents and {len(values)} gold values, without ids: "
                f"{where} has no partner",
                action="give both an id, or as many gold values as documents in the same order",
            )
        return dict(zip(there, values.values(), strict=True)), True
    for id, place in there.items():
        if id not in values:
            raise DocumentError(
                f"{place}: the document {id!r} has no gold value in {shown}",
                action="leave it out, or write its gold value with this id",
            )
    for id, place in places.items():
        if id not in there:
            raise DocumentError(
                f"{place}: the gold value has the id {id!r}, and no document has",
                action="correct the id, or leave the gold value out",
            )
    return values, False


def read_results(files: Sequence[str]) -> dict[str, ResultRow]:
    """Results of `constrained extract --out`, by the ids of their documents.

    Raises:
        DocumentError: as `read_documents`; or a row is not a result.
    """
    results: dict[str, ResultRow] = {}
    for row, is_text in _rows(files, Columns("value", more=("error", "error_type"))):
        value = _cell(row, "value", "name a file that `constrained extract --out` has written")
        id, error = record_id(row, None), row.members.get("error")
        if id in results:
            raise DocumentError(f"{row.place}: there is a result of {id!r} already", action="name one run")
        text = None if error else value if is_text else json.dumps(value)
        results[id] = ResultRow(id, text, error or None, row.members.get("error_type") or None)
    return results


def _rows(files: Sequence[str], columns: Columns) -> Iterator[tuple[Row, bool]]:
    """Rows, and whether their values are JSON text, as in all files but JSON Lines."""
    for name in files:
        is_text = Path(name).suffix.lower() not in (".jsonl", ".ndjson")
        for row in file_rows([name], columns):
            yield row, is_text


def _cell(row: Row, column: str, action: str) -> Any:
    if column not in row.members:
        known = ", ".join(list(map(str, row.members))[:12]) or "nothing"
        raise DocumentError(f"{row.place}: there is no {column!r}", action=f"{action}; there is {known}")
    return row.members[column]


def _gold_value(cell: Any, constraint: Constraint, *, is_text: bool) -> Any:
    if not constraint.is_json:
        if not isinstance(cell, str) or not accepts_text(_byte_automaton(constraint), cell):
            raise RejectedValue(f"{cell!r:.80} is not such a text")
        return cell
    value = read_value(cell) if is_text and isinstance(cell, str) else cell
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError as error:
        raise RejectedValue(f"not JSON: {error}") from None
    if problems := constraint.problems(text):
        raise RejectedValue("by its schema", problems)
    constraint.parse(text)  # what only the type's own code checks
    return value


@lru_cache(maxsize=1)
def _byte_automaton(constraint: Constraint) -> Automaton:
    return compile(constraint, Vocabulary.from_bytes([*(bytes([i]) for i in range(256)), b""], [256]))
