"""Documents out of files: JSON Lines, CSV, TSV, Parquet, text files and standard input, one at a time.

Nothing is held but one record, or for Parquet one batch of records, and the ids where duplicates are looked for.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from constrained.errors import DocumentError
from constrained.extraction.extraction import Document

STDIN = "-"
"""Names standard input, which is read as JSON Lines."""

TEXT_LIMIT = 16 << 20
"""Bytes of one document: far more than the context of any model."""

_LINE_LIMIT = 4 * TEXT_LIMIT
_LIMIT_NEXT = "split it into smaller documents"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which members of a record are read.

    Attributes:
        text: the column of texts; None: ``text``.
        id: the column of ids; None: ``id`` where a record has it, else file and line.
        more: further columns, which only a Parquet file has to know.
    """

    text: str | None = None
    id: str | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A document and where it stands.

    Attributes:
        id: of the document.
        text: of the document.
        place: file and line (Parquet: row) for messages.
    """

    id: str
    text: str
    place: str


class Row(NamedTuple):
    """A record as its file has it.

    Attributes:
        members: by name.
        place: file and line (Parquet: row) for messages.
        default_id: of a record without an id.
    """

    members: dict[str, Any]
    place: str
    default_id: str


# ---------------------------------------------------------------- the public functions


def read_documents(
    *inputs: str | Path, text_column: str | None = None, id_column: str | None = None
) -> Iterator[Document]:
    """Reads documents from files, one at a time.

    ``.jsonl`` and ``.ndjson`` (an object a line), ``.csv`` and ``.tsv`` (with a header), ``.parquet``, and ``.txt`` and
    ``.md`` (a file is one document, and its path the id); ``-`` is standard input as JSON Lines.

    Args:
        inputs: files, and patterns such as ``docs/**/*.txt``.
        text_column: member or column of the text; default ``text``.
        id_column: member or column of the id, a string or an integer; default ``id`` where a record has it, else
            ``file:line``.

    Raises:
        DocumentError: a file is missing, of another type, not UTF-8, or malformed; names file and line.
        MissingExtra: pyarrow is not installed, which ``.parquet`` needs.
    """
    for record in read_records(expand_inputs(inputs), Columns(text_column, id_column)):
        yield Document(record.id, record.text)


def expand_inputs(inputs: Iterable[str | Path]) -> list[str]:
    """The files that inputs name: patterns are replaced by the files that match, in alphabetical order.

    Raises:
        DocumentError: a file is missing, a folder, or of a type that is not read; a pattern matches nothing; standard
            input is named twice.
    """
    files: list[str] = []
    for given in inputs:
        name = os.fspath(given)
        if name == STDIN:
            if STDIN in files:
                raise DocumentError("standard input is named twice", action="name it once")
            files.append(name)
        elif not os.path.exists(name) and glob.has_magic(name):
            found = sorted(path for path in glob.iglob(name, recursive=True) if os.path.isfile(path))
            if not found:
                raise DocumentError(f"no file matches {name}", action="check the pattern")
            files += found
        else:
            files.append(name)
    for name in files:
        if name != STDIN:
            _check_file(name)
    return files


class CheckedFiles(NamedTuple):
    """Files that have been read through.

    Attributes:
        readable: those that can be read, and standard input, which has not been.
        documents: how many are in them, standard input not counted.
        faults: what is wrong with the others; each names its file.
    """

    readable: list[str]
    documents: int
    faults: list[DocumentError]


def check_files(files: Iterable[str], columns: Columns) -> CheckedFiles:
    """Reads all files through, so that faults are known before a model is loaded.

    Args:
        files: as `expand_inputs` returns them.
        columns: which members are read.

    Raises:
        DocumentError: an id is there twice in those that can be read.
    """
    readable: list[str] = []
    faults: list[DocumentError] = []
    seen: set[str] = set()
    for name in files:
        mine: set[str] = set()
        twice: Record | None = None
        try:
            for record in read_records([name] if name != STDIN else [], columns):
                if record.id in seen or record.id in mine:
                    twice = record
                    break
                mine.add(record.id)
        except DocumentError as fault:
            faults.append(fault)
            continue
        readable.append(name)
        if twice is not None:
            raise _there_twice(twice, readable, columns)
        seen |= mine
    return CheckedFiles(readable, len(seen), faults)


def unique_records(files: Iterable[str], columns: Columns) -> Iterator[Record]:
    """The records of files; remembers all ids.

    Raises:
        DocumentError: as `read_documents`; or an id is there twice.
    """
    files = list(files)
    seen: set[str] = set()
    for record in read_records(files, columns):
        if record.id in seen:
            raise _there_twice(record, files, columns)
        seen.add(record.id)
        yield record


def _there_twice(record: Record, files: Iterable[str], columns: Columns) -> DocumentError:
    again = [name for name in files if name != STDIN]
    first = next((one.place for one in read_records(again, columns) if one.id == record.id), STDIN)
    places = f"{first} and {record.place}" if first != record.place else first
    return DocumentError(
        f"the id {record.id!r} is there twice: {places}",
        action="results are told apart by ids: name another --id-column, or name each file once",
    )


def read_records(files: Iterable[str], columns: Columns) -> Iterator[Record]:
    """The records of files, in their order.

    Raises:
        DocumentError: as `read_documents`.
    """
    for row in file_rows(files, columns):
        yield make_record(row, columns)


def file_rows(files: Iterable[str], columns: Columns) -> Iterator[Row]:
    """The rows of files, in their order, whatever their members are.

    Raises:
        DocumentError: as `read_documents`, but for what is wrong with members.
    """
    for name in files:
        yield from _READERS[_suffix(name)](name, columns)


# ---------------------------------------------------------------- types of files

_CONVERTERS = {
    ".pdf": "pdftotext -layout {0} {1}.txt",
    ".docx": "pandoc --to plain {0} --output {1}.txt",
    ".odt": "pandoc --to plain {0} --output {1}.txt",
    ".epub": "pandoc --to plain {0} --output {1}.txt",
    ".doc": "soffice --headless --convert-to txt {0}",
    ".rtf": "pandoc --to plain {0} --output {1}.txt",
    ".html": "pandoc --from html --to plain {0} --output {1}.txt",
    ".htm": "pandoc --from html --to plain {0} --output {1}.txt",
    ".xlsx": "save the sheet as {1}.csv",
    ".json": "jq --compact-output '.[]' {0} > {1}.jsonl",
    ".gz": "gunzip --keep {0}",
    ".zst": "unzstd {0}",
    ".zip": "unzip {0}",
}


def _suffix(name: str) -> str:
    return ".jsonl" if name == STDIN else Path(name).suffix.lower()


def _check_file(name: str) -> None:
    suffix = _suffix(name)
    shown = printable(name)
    if os.path.isdir(name):
        raise DocumentError(f"{shown} is a folder", action=f"name its files: {os.path.join(shown, '*.txt')}")
    if suffix in _CONVERTERS:
        command = _CONVERTERS[suffix].format(shown, printable(str(Path(name).with_suffix(""))))
        raise DocumentError(f"{shown}: {suffix} files are not read", action=f"convert it: {command}")
    if suffix not in _READERS:
        raise DocumentError(
            f"{shown}: the type of the file is not known by its name", action=f"use {', '.join(_READERS)}"
        )
    with _opened(name):
        pass


def _opened(name: str) -> BinaryIO:
    if name == STDIN:
        if sys.stdin is None:
            raise DocumentError("there is no standard input to read")
        return sys.stdin.buffer
    try:
        return open(name, "rb")
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> DocumentError:
    reason = getattr(error, "strerror", None) or str(error)
    return DocumentError(f"{printable(name)} cannot be read: {reason[:1].lower()}{reason[1:]}")


def printable(name: str) -> str:
    """A file name as text that UTF-8 can encode; bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


# ---------------------------------------------------------------- lines


def _lines(name: str) -> Generator[str, None, None]:
    """Lines with their ends, decoded one at a time, so that an error names the line."""
    file = _opened(name)
    shown = "standard input" if name == STDIN else printable(name)
    try:
        number = 0
        while data := file.readline(_LINE_LIMIT + 1):
            number += 1
            if len(data) > _LINE_LIMIT:
                raise DocumentError(
                    f"{shown}, line {number}: more than {_LINE_LIMIT >> 20} MiB", action=_LIMIT_NEXT
                )
            try:
                yield data.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DocumentError(
                    f"{shown}, line {number}: not UTF-8 text: {error.reason} at byte {error.start + 1}",
                    action="convert the file, with iconv -t UTF-8 for example",
                ) from None
    except OSError as error:
        raise _unreadable(shown, error) from None
    finally:
        if name != STDIN:
            file.close()


def _json_lines(name: str, columns: Columns) -> Iterator[Row]:
    shown = "stdin" if name == STDIN else printable(name)
    with closing(_lines(name)) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = f"{shown}, line {number}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                reason = (
                    "nested too deeply"
                    if isinstance(error, RecursionError)
                    else str(error).split(": line 1 ")[0]
                )
                raise DocumentError(
                    f"{place}: not a line of JSON: {reason}",
                    action='JSON Lines have one object a line, such as {"id": 1, "text": "..."}',
                ) from None
            if not isinstance(value, dict):
                raise DocumentError(
                    f"{place}: a {type(value).__name__}, not an object",
                    action='write {"text": "..."}, with an "id" if there is one',
                )
            yield Row(value, place, f"{shown}:{number}")


def _separated(delimiter: str) -> Callable[[str, Columns], Iterator[Row]]:
    def read(name: str, columns: Columns) -> Iterator[Row]:
        shown = printable(name)
        csv.field_size_limit(max(TEXT_LIMIT, csv.field_size_limit()))
        with closing(_lines(name)) as lines:
            rows = csv.reader(lines, delimiter=delimiter, strict=True)
            header: list[str] | None = None
            while True:
                number = rows.line_num + 1
                place = f"{shown}, line {number}"
                try:
                    row = next(rows)
                except StopIteration:
                    return
                except csv.Error as error:
                    raise DocumentError(
                        f"{place}: malformed: {error}", action="check the quotes, and the end of the file"
                    ) from None
                if not row:
                    continue  # an empty line
                if header is None:
                    header = row
                    if len(set(header)) < len(header):
                        raise DocumentError(f"{place}: a column is named twice", action="rename one")
                    continue
                if len(row) != len(header):
                    # Most often a comma in a text that has no quotes: the text would be cut there.
                    raise DocumentError(
                        f"{place}: {len(row)} fields, and the header has {len(header)}",
                        action=f"put fields that hold {delimiter!r} or a line break into double quotes",
                    )
                yield Row(dict(zip(header, row, strict=True)), place, f"{shown}:{number}")

    return read


def _text(name: str, columns: Columns) -> Iterator[Row]:
    shown = printable(name)
    with _opened(name) as file:
        try:
            data = file.read(TEXT_LIMIT + 1)
        except OSError as error:
            raise _unreadable(name, error) from None
    if len(data) > TEXT_LIMIT:
        raise DocumentError(f"{shown}: more than {TEXT_LIMIT >> 20} MiB", action=_LIMIT_NEXT)
    if data.startswith(b"%PDF-"):
        raise DocumentError(
            f"{shown} is a PDF file", action="convert it: " + _CONVERTERS[".pdf"].format(shown, shown)
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentError(
            f"{shown}, line {line}: not UTF-8 text: {error.reason} at byte {error.start + 1} of the file",
            action="convert the file, with iconv -t UTF-8 for example",
        ) from None
    yield Row({columns.text or "text": text, columns.id or "id": shown}, shown, shown)


def _parquet(name: str, columns: Columns) -> Iterator[Row]:
    from constrained.extraction.files.parquet_files import read_rows

    shown = printable(name)
    names = (columns.text or "text", columns.id or "id", *columns.more)
    for number, members in enumerate(read_rows(name, names), 1):
        yield Row(members, f"{shown}, row {number}", f"{shown}:{number}")


_READERS: dict[str, Callable[[str, Columns], Iterator[Row]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".csv": _separated(","),
    ".tsv": _separated("\t"),
    ".parquet": _parquet,
    ".txt": _text,
    ".md": _text,
}


# ---------------------------------------------------------------- one record


def make_record(row: Row, columns: Columns) -> Record:
    """Checks a row and takes its text and its id.

    Raises:
        DocumentError: a column is missing, the text is no string, or the id is neither string nor integer.
    """
    return Record(record_id(row, columns.id), _text_of(row, columns.text), row.place)


def _text_of(row: Row, column: str | None) -> str:
    name = column or "text"
    if name not in row.members:
        known = ", ".join(list(map(str, row.members))[:12]) or "nothing"
        raise DocumentError(
            f"{row.place}: there is no {name!r}",
            action=f"name the column of the text: --text-column; there is {known}",
        )
    text = row.members[name]
    if text is None:
        return ""  # a document without content is an error of that document, not of the file
    if not isinstance(text, str):
        raise DocumentError(
            f"{row.place}: {name!r} is of type {type(text).__name__}", action="a text is a string"
        )
    if len(text) > TEXT_LIMIT:
        raise DocumentError(f"{row.place}: a text of more than {TEXT_LIMIT >> 20} MiB", action=_LIMIT_NEXT)
    return text


def record_id(row: Row, column: str | None) -> str:
    """The id of a row; without a column of ids its default one.

    Raises:
        DocumentError: the column is missing, or the id is neither string nor integer.
    """
    value = row.members.get(column or "id")
    if column is None and (value is None or value == ""):
        return row.default_id
    if column is not None and column not in row.members:
        known = ", ".join(list(map(str, row.members))[:12])
        raise DocumentError(
            f"{row.place}: there is no {column!r}", action=f"check --id-column; there is {known}"
        )
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DocumentError(
            f"{row.place}: the id {value!r:.80} is neither an integer nor a string with content",
            action="name another --id-column",
        )
    text = str(value)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise DocumentError(f"{row.place}: the id {text!a:.80} holds half a character (a lone surrogate)")
    return text
