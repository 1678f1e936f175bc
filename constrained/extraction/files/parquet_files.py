"""Parquet: rows of documents in, results out. The one module that imports pyarrow."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from constrained.errors import DocumentError
from constrained.extraction.files.durable_files import whole_file
from constrained.extras import require_extra

_ROWS = 256
"""Rows of a batch that is read."""

_GROUP_ROWS = 4096
"""Rows of a group that is written."""


def load_pyarrow() -> Any:
    """The library.

    Raises:
        MissingExtra: it is not installed.
    """
    with require_extra("parquet"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def read_rows(name: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, with those of the columns that it has.

    Only these columns are read, a batch of rows at a time; None: all.

    Raises:
        DocumentError: the file cannot be read, or is damaged.
        MissingExtra: pyarrow is not installed.
    """
    pyarrow = load_pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(name, memory_map=True) as file:
            there = file.schema_arrow.names
            wanted = None if columns is None else [column for column in columns if column in there]
            if wanted == []:
                if file.metadata.num_rows:
                    yield dict.fromkeys(there)  # its names go into the message
                return
            for batch in file.iter_batches(_ROWS, columns=wanted):
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise DocumentError(f"{name} cannot be read as Parquet: {reason:.200}") from None


def write_results(rows: Iterable[dict[str, Any]], name: str, details: Sequence[str] = ()) -> None:
    """Writes rows of results to a Parquet file: all of them, or no file.

    The file gets its name when it is whole and on the disk.

    Args:
        rows: as `ResultRow.columns`.
        name: the file, which is replaced.
        details: columns beyond `RESULT_COLUMNS`.

    Raises:
        OSError: it cannot be written.
        MissingExtra: pyarrow is not installed.
    """
    pyarrow = load_pyarrow()
    rows = iter(rows)
    schema = arrow_table([], details).schema
    with whole_file(name) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
        while group := list(itertools.islice(rows, _GROUP_ROWS)):
            writer.write_table(arrow_table(group, details))


def arrow_table(rows: list[dict[str, Any]], details: Sequence[str]) -> Any:
    """Rows of results as an Arrow table.

    Args:
        rows: as `ResultRow.columns`.
        details: columns beyond `RESULT_COLUMNS`; their values become JSON text.
    """
    pyarrow = load_pyarrow()
    columns = {**RESULT_COLUMNS, **dict.fromkeys(details, "string")}
    schema = pyarrow.schema([(column, getattr(pyarrow, type_)()) for column, type_ in columns.items()])
    cells = [{column: _cell(row.get(column)) for column in columns} for row in rows]
    return pyarrow.Table.from_pylist(cells, schema)


RESULT_COLUMNS = {
    "id": "string",
    "value": "string",
    "error": "string",
    "error_type": "string",
    "attempts": "int32",
}
"""Columns of results and their Arrow types; the value is JSON text."""


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)
