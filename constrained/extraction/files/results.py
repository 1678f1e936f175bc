"""The file of results: appended as they come, resumed after a kill, never half a file that looks whole."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import constrained
from constrained.constraint import Constraint
from constrained.errors import DocumentError, InvalidArgument, Problem, Truncated
from constrained.extraction.extraction import Extraction
from constrained.extraction.files.durable_files import (
    LineFile,
    in_use,
    lock,
    not_written,
    read_lines,
    remove_unfinished,
    repair_lines,
    rewrite_lines,
    whole_file,
)
from constrained.extraction.values.fields import FieldProbability
from constrained.extraction.values.grounding import SpanMatch

DETAILS = ("spans", "fields", "partial")
"""Further columns that results can have: attributes of `Extraction`, and the text that a document has which the limit cut."""

SUFFIXES = (".jsonl", ".ndjson", ".parquet")
"""Names of files of results end with one of these."""


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A line of the file: what became of one document.

    Attributes:
        id: of the document.
        value: the value as JSON text; None after an error.
        error: the message of the error; None if there is none.
        error_type: its class, such as ``Truncated``.
        attempts: completions that were generated.
        more: further columns as JSON values, see `DETAILS`; None after an error.
    """

    id: str
    value: str | None
    error: str | None = None
    error_type: str | None = None
    attempts: int = 1
    more: Mapping[str, Any] | None = None

    def columns(self) -> dict[str, Any]:
        """The row as JSON values; the value is still text."""
        row = {
            "id": self.id,
            "value": self.value,
            "error": self.error,
            "error_type": self.error_type,
            "attempts": self.attempts,
        }
        return {**row, **(self.more or {})}

    def with_columns(self, more: Mapping[str, Any]) -> ResultRow:
        """The row with further columns."""
        return replace(self, more={**(self.more or {}), **more})

    def line(self, *, value_is_text: bool = False) -> str:
        """The row as a line of JSON.

        Args:
            value_is_text: the value as a JSON string that holds its text, else as the JSON value itself, character by
                character, so that ``1.10`` and ``1e400`` stay what they are.
        """
        if value_is_text or self.value is None:
            return json.dumps(self.columns(), ensure_ascii=False)
        rest = {name: value for name, value in self.columns().items() if name not in ("id", "value")}
        # Line breaks in JSON text stand between its tokens only: those in strings are escaped.
        value = self.value.replace("\r", " ").replace("\n", " ")
        start = f'{{"id": {json.dumps(self.id, ensure_ascii=False)}, "value": {value}, '
        return start + json.dumps(rest, ensure_ascii=False)[1:]


_NOT_COMPARED = {"batch_size", "max_batch_tokens", "progress", "ordered", "errors", "speculation"}
"""Options that no value depends on."""


def run_settings(model: Any, constraint: Constraint, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the values of a run depend on, as JSON values: see `ResultFile`.

    Args:
        model: its name or folder, a function that loads it, or None for the bundled one.
        constraint: of the values.
        options: further settings; those that are None are left out.
    """
    if model is None:
        name = "bundled"
    elif isinstance(model, str):
        name = os.path.abspath(model) if os.path.isdir(model) else model
    else:
        name = f"{getattr(model, '__module__', '')}.{getattr(model, '__qualname__', type(model).__name__)}"
    compared = {
        option: value if isinstance(value, bool | int | float | str) else _shortened(repr(value))
        for option, value in sorted(options.items())
        if value is not None and option not in _NOT_COMPARED
    }
    return {"model": name, "constraint": constraint.render(), "constraint_key": constraint.key, **compared}


def _shortened(text: str) -> str:
    return (
        text if len(text) <= 100 else f"{text[:60]}... ({blake2b(text.encode(), digest_size=12).hexdigest()})"
    )


def result_row(extraction: Extraction[Any], *, is_json: bool, details: Sequence[str] = ()) -> ResultRow:
    """The row of an extraction.

    Args:
        extraction: a value or an error.
        is_json: as of its constraint; other completions become JSON strings.
        details: names of further columns, see `DETAILS`.

    Raises:
        ConstrainedError: the model cannot be asked for `fields`.
    """
    id, error = str(extraction.id), extraction.error
    if error is not None:
        more = dict.fromkeys(details)
        if isinstance(error, Truncated) and "partial" in details:
            more["partial"] = error.text
        return ResultRow(id, None, str(error), type(error).__name__, extraction.attempts, more)
    text = extraction.text
    value = text if is_json else json.dumps(text, ensure_ascii=False)
    more = {
        name: None
        if name == "partial"
        else {pointer: _detail(one) for pointer, one in getattr(extraction, name).items()}
        for name in details
    }
    return ResultRow(id, value, attempts=extraction.attempts, more=more)


def _detail(detail: SpanMatch | FieldProbability) -> dict[str, Any]:
    """A place or a probability as a JSON value; null for the logarithm of 0, which JSON cannot write."""
    if isinstance(detail, SpanMatch):
        return {"start": detail.start, "end": detail.end, "how": detail.how}
    return {
        "logprob": detail.logprob if math.isfinite(detail.logprob) else None,
        "probability": detail.probability,
        "others": detail.others,
        "allowed": detail.allowed,
        "derailed": detail.derailed,
        "choice": detail.choice,
        "alternatives": [list(one) for one in detail.alternatives],
    }


def check_details(names: Sequence[str]) -> tuple[str, ...]:
    """The names of further columns, each once.

    Raises:
        InvalidArgument: one is not in `DETAILS`.
    """
    if isinstance(names, str) or not all(name in DETAILS for name in names):
        raise InvalidArgument(
            f"details is {names!r}", action=f"the details of results are {', '.join(DETAILS)}"
        )
    return tuple(dict.fromkeys(names))


class ResultFile:
    """Results of a run in a file: ``.jsonl``, or ``.parquet``, which appears when `finish` is called.

    Until then the results for Parquet are lines of ``NAME.parquet.partial.jsonl``. Beside the file stands
    ``NAME.run.json`` with the settings of the run; it is also what keeps two processes from writing to one file.

    A context manager, which closes the file.

    Attributes:
        done: ids of the documents that have a result.
        errors: how many of these results are errors of each class, such as ``Truncated``.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        errors: str | None = None,
        resume: bool = False,
        retry_errors: bool = False,
        details: Sequence[str] = (),
    ) -> None:
        """Opens the file of a new run, or of one to go on with.

        Args:
            name: the file.
            settings: what the values depend on, by name, as JSON values.
            errors: file of JSON lines for the documents that failed; None: they are rows of the file itself.
            resume: go on with the file if it is there.
            retry_errors: when it is, documents that failed have no result, and `RETRIED` settings may be others.
            details: further columns of the rows, see `DETAILS`.

        Raises:
            DocumentError: it exists and `resume` is False; it was written with other settings; another process writes
                to it; it is damaged; it cannot be written.
            MissingExtra: pyarrow is not installed, which ``.parquet`` needs.
        """
        self._parquet = _is_parquet(name)
        self.name = name
        self._journal = f"{name}.partial.jsonl" if self._parquet else name
        self._errors = errors
        self._details = details
        names = [self._journal] if errors is None else [self._journal, errors]
        if errors is not None and os.path.realpath(errors) in map(os.path.realpath, (name, self._journal)):
            raise DocumentError(
                f"{errors} is the file of the results",
                action="leave out the file of errors: they are rows there",
            )
        self._run = open_run(
            f"{name}.run.json",
            settings,
            lambda: self._is_fresh(names, resume=resume),
            retry_errors=retry_errors,
        )
        self.done: set[str] = set()
        self.errors: Counter[str] = Counter()
        self._finished = False
        self._files: list[LineFile] = []
        try:
            for path in names:
                self._files.append(self._opened(path, retry_errors=retry_errors))
            if self._parquet:
                remove_unfinished(name)
                if os.path.exists(name):
                    self._count_parquet(retry_errors=retry_errors)
        except BaseException:
            self.close()
            raise

    def _is_fresh(self, names: Sequence[str], *, resume: bool) -> bool:
        there = next((path for path in (self.name, *names) if _has_content(path)), None)
        if there is not None and not resume:
            raise DocumentError(
                f"{there} exists already", action="pass --resume to go on with it, or name another file"
            )
        return there is None

    def _opened(self, path: str, *, retry_errors: bool) -> LineFile:
        """A file of lines for this process alone, repaired and counted."""
        file = LineFile(path)
        try:
            remove_unfinished(path)
            repair_lines(path)
            if retry_errors and _drop_errors(path):
                file.close()
                file = LineFile(path)  # the new one
            for row in read_lines(path):
                self._count(row["id"], row["error_type"])
        except BaseException as error:
            file.close()
            if isinstance(error, KeyError):
                raise DocumentError(
                    f"{path} has lines that are no results", action="name another file"
                ) from None
            raise
        return file

    def write(self, row: ResultRow) -> None:
        """Appends a result.

        Raises:
            DocumentError: it cannot be written; the results before it are kept.
        """
        file = self._files[-1 if row.error is not None else 0]
        file.append(row.line(value_is_text=self._parquet))
        self._count(row.id, row.error_type)

    def finish(self) -> None:
        """Makes the results the whole file that was asked for.

        Raises:
            DocumentError: it cannot be written.
        """
        for file in self._files:
            file.close()
        self._finished = True
        if not self._parquet:
            return
        from constrained.extraction.files.parquet_files import write_results

        try:
            write_results(self._all_rows(), self.name, self._details)
            os.unlink(self._journal)
        except OSError as error:
            raise not_written(self.name, error) from None

    def close(self) -> None:
        """Puts all results on the disk and gives the file free; a run that has none leaves no files."""
        try:
            for file in self._files:
                file.close()
            if self._files and not self.done and not self._finished:
                for path in (*(file.name for file in self._files), f"{self.name}.run.json"):
                    os.unlink(path)
        finally:
            self._run.close()

    def __enter__(self) -> ResultFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count(self, id: str, error_type: str | None) -> None:
        self.done.add(id)
        if error_type is not None:
            self.errors[error_type] += 1

    def _count_parquet(self, *, retry_errors: bool) -> None:
        from constrained.extraction.files.parquet_files import read_rows

        for row in read_rows(self.name, ("id", "error_type")):
            # Rows that stand in both: the process was killed between writing the one and removing the other.
            if row["id"] not in self.done and not (row["error_type"] and retry_errors):
                self._count(row["id"], row["error_type"])

    def _all_rows(self) -> Iterator[dict[str, Any]]:
        fresh = {row["id"] for row in read_lines(self._journal)}
        if os.path.exists(self.name):
            from constrained.extraction.files.parquet_files import read_rows

            yield from (row for row in read_rows(self.name) if row["id"] not in fresh)
        yield from read_lines(self._journal)


def _is_parquet(name: str) -> bool:
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise DocumentError(
            f"{name}: results are not written to such a file", action=f"use {', '.join(SUFFIXES)}"
        )
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise DocumentError(f"{name} cannot be written: there is no folder {folder}", action="make it")
    if suffix == ".parquet":
        from constrained.extraction.files.parquet_files import load_pyarrow

        load_pyarrow()
    return suffix == ".parquet"


def _has_content(name: str) -> bool:
    return os.path.exists(name) and os.path.getsize(name) > 0


def _drop_errors(name: str) -> bool:
    """Removes the rows of documents that failed, if there are any; lines stay as they are, character by character."""
    if not any(row["error"] is not None for row in read_lines(name)):
        return False
    with open(name, encoding="utf-8") as file:
        rewrite_lines(name, (line.rstrip("\n") for line in file if json.loads(line)["error"] is None))
    return True


def open_run(
    name: str, settings: Mapping[str, Any], is_fresh: Callable[[], bool], *, retry_errors: bool = False
) -> IO[str]:
    """Opens and locks the file of a run's settings; writes it for a new run, compares it for another one.

    Args:
        name: the file.
        settings: as of `ResultFile`.
        is_fresh: says whether it is a new run; asked when the file is locked.
        retry_errors: `RETRIED` settings may differ; the file then has those of each run.

    Returns:
        The file; the lock ends when it is closed.

    Raises:
        DocumentError: the settings are others; another process has the lock; it cannot be written.
    """
    file = _locked(name, "a+")
    try:
        fresh = is_fresh()
        facts = {"version": constrained.__version__, "settings": dict(settings)} if fresh else None
        if facts is None:
            facts = _compare(name, file, settings, retry_errors=retry_errors)
        if facts is None:
            return file
        with whole_file(name) as temporary:
            written = _locked(temporary, "w+")
            written.write(json.dumps(facts, indent=1, ensure_ascii=True) + "\n")
            written.flush()
    except OSError as error:
        file.close()
        raise not_written(name, error) from None
    except BaseException:
        file.close()
        raise
    file.close()
    return written


def _locked(name: str, mode: str) -> IO[str]:
    """A file that this process has locked, and that still has its name then."""
    while True:
        try:
            file = open(name, mode, encoding="utf-8")  # noqa: SIM115 (open as long as the lock is held)
        except OSError as error:
            raise not_written(name, error) from None
        if not lock(file.fileno()):
            file.close()
            raise in_use(name)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
                return file
        file.close()  # another process has replaced or removed it meanwhile


RETRIED = frozenset({"max_tokens", "on_limit", "on_repeat", "retries", "temperature", "seed"})
"""Settings that may be others for documents that failed: the remedies that errors name."""


def _compare(
    name: str, file: IO[str], settings: Mapping[str, Any], *, retry_errors: bool
) -> dict[str, Any] | None:
    """Refuses settings with which a run cannot go on; returns what the file is to hold, if it changes."""
    file.seek(0)
    there: Any = None
    facts: dict[str, Any] = {}
    with contextlib.suppress(ValueError, KeyError, TypeError):
        facts = json.load(file)
        there = facts["settings"]
    if not isinstance(there, dict):
        raise DocumentError(
            f"{name} does not tell what the results were made with",
            action="name another file for the results",
        )
    asked = json.loads(json.dumps(dict(settings)))
    later = facts.get("retried_with", [])
    if asked in (there, *later):
        return None
    if retry_errors and {**asked, **dict.fromkeys(RETRIED)} == {**there, **dict.fromkeys(RETRIED)}:
        return {**facts, "retried_with": [*later, asked]}
    problems = [
        Problem(key, f"was {json.dumps(there.get(key))}", asked.get(key))
        for key in sorted({*there, *asked})
        if there.get(key) != asked.get(key)
    ]
    if not problems:
        return None
    more = (
        "; --retry-errors takes other limits for those that failed"
        if {one.place for one in problems} <= RETRIED
        else ""
    )
    raise DocumentError(
        "the results were made with other settings, so the run cannot go on with these",
        problems,
        action=f"give the settings of that run, or name another file with --out{more}",
    )
