"""Files of results: every result once, whatever interrupts the run, and never half a file that looks whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from constrained.errors import DocumentError
from constrained.extraction.files.durable_files import LineFile
from constrained.extraction.files.results import ResultFile, ResultRow

SETTINGS = {"model": "tiny", "temperature": 0.5, "examples": None}
posix = pytest.mark.skipif(os.name != "posix", reason="signals and descriptors as POSIX has them")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def good(number: int) -> ResultRow:
    return ResultRow(str(number), f'{{"n": {number}}}')


def bad(number: int) -> ResultRow:
    return ResultRow(str(number), None, "cut\nat 3", "Truncated", 2)


def fill(name: str, *rows: ResultRow, finish: bool = True, **options: Any) -> ResultFile:
    with ResultFile(name, SETTINGS, **options) as file:
        for row in rows:
            file.write(row)
        if finish:
            file.finish()
    return file


def table(name: str) -> list[dict[str, Any]]:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(name).to_pylist()  # type: ignore[no-any-return]


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- rows


def test_a_line_is_the_row_and_its_value_stays_as_it_was_written() -> None:
    row = ResultRow("ü\ud800", '{\n "x": 1e400, "y": 1.10,\r\n "z": "a\\nb"}', more={"spans": {"/x": [0, 1]}})
    with ResultFile("a.jsonl", SETTINGS) as file:
        file.write(row)
    text = Path("a.jsonl").read_text(encoding="utf-8")
    assert '"value": {  "x": 1e400, "y": 1.10,   "z": "a\\nb"}' in text
    assert text.startswith('{"id": "ü\\ud800", ')
    assert lines("a.jsonl") == [
        {
            "id": "ü\ud800",
            "value": {"x": float("inf"), "y": 1.1, "z": "a\nb"},
            "error": None,
            "error_type": None,
        }
        | {"attempts": 1, "spans": {"/x": [0, 1]}}
    ]


def test_errors_are_rows_or_lines_of_their_own_file() -> None:
    file = fill("a.jsonl", good(1), bad(2))
    assert (file.done, file.errors.total()) == ({"1", "2"}, 1)
    assert lines("a.jsonl")[1] == {
        "id": "2",
        "value": None,
        "error": "cut\nat 3",
        "error_type": "Truncated",
        "attempts": 2,
    }
    fill("b.jsonl", good(1), bad(2), errors="errors.jsonl")
    assert [row["id"] for row in lines("b.jsonl")] == ["1"]
    assert [row["id"] for row in lines("errors.jsonl")] == ["2"]
    again = fill("b.jsonl", errors="errors.jsonl", resume=True)
    assert (again.done, again.errors.total()) == ({"1", "2"}, 1)


# ---------------------------------------------------------------- interrupted runs


@pytest.mark.parametrize(("name", "step"), [("a.jsonl", 1), ("a.parquet", 7)])  # their journals are alike
def test_a_run_goes_on_after_a_cut_at_any_byte(name: str, step: int) -> None:
    """A judge that knows nothing of repairing: the lines that are whole in what is left."""
    journal = Path(name if name.endswith("l") else name + ".partial.jsonl")
    fill(name, *map(good, range(3)), bad(3), finish=False)
    data = journal.read_bytes()
    run = Path(f"{name}.run.json").read_bytes()
    for cut in range(1, len(data) + 1, step):
        journal.write_bytes(data[:cut])
        expected = {
            json.loads(line)["id"] for line in data[:cut].splitlines(keepends=True) if line.endswith(b"\n")
        }
        with ResultFile(name, SETTINGS, resume=True) as file:
            assert file.done == expected
            for row in (*map(good, range(3)), bad(3)):
                if row.id not in file.done:
                    file.write(row)
        assert journal.read_bytes() == data
    assert Path(f"{name}.run.json").read_bytes() == run


def test_zeros_behind_the_last_line_are_cut_off_and_damage_in_the_middle_is_named() -> None:
    fill("a.jsonl", good(1))
    whole = Path("a.jsonl").read_bytes()
    Path("a.jsonl").write_bytes(whole + b"\0" * 100 + b"\n" + b"\0" * 10)  # as a power failure leaves them
    assert fill("a.jsonl", resume=True).done == {"1"}
    assert Path("a.jsonl").read_bytes() == whole
    Path("a.jsonl").write_bytes(whole + b"{\n" + whole)
    with pytest.raises(DocumentError, match=r"a\.jsonl, line 2: not a result"):
        ResultFile("a.jsonl", SETTINGS, resume=True)


WRITER = """
    import sys
    from constrained.extraction.files.results import ResultFile, ResultRow
    with ResultFile(sys.argv[1], {}, resume=True) as file:
        print("open", flush=True)
        for number in range(10 ** 9):
            if str(number) not in file.done:
                file.write(ResultRow(str(number), '"' + "x" * 3000 + '"'))
"""


@posix
def test_a_killed_process_leaves_whole_results() -> None:
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), "a.jsonl"], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        size = Path("a.jsonl").stat().st_size
        while Path("a.jsonl").stat().st_size < size + 1_000_000:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with ResultFile("a.jsonl", {}, resume=True) as file:
        count = len(file.done)
    assert count > 600
    assert [row["id"] for row in lines("a.jsonl")] == [str(number) for number in range(count)]


@posix
def test_two_processes_do_not_write_to_one_file() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), "a.jsonl"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(DocumentError, match="another process writes to the results"):
            ResultFile("a.jsonl", {}, resume=True)
    finally:
        process.kill()
        process.communicate()


def test_a_full_disk_is_an_error_and_the_file_ends_with_a_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file = LineFile("a.jsonl")
    file.append('{"n": 1}')

    class Full:
        """Takes half of the bytes, then none."""

        def __init__(self, real: Any) -> None:
            self.real = real
            self.left = 4

        def write(self, data: memoryview) -> int:
            if not self.left:
                raise OSError(28, "No space left on device")
            count, self.left = self.real.write(data[: self.left]), 0
            return int(count)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

    monkeypatch.setattr(file, "_file", Full(file._file))
    with pytest.raises(DocumentError, match=r"a\.jsonl cannot be written: no space left on device"):
        file.append('{"n": 2}')
    file.close()
    assert Path("a.jsonl").read_text() == '{"n": 1}\n'


# ---------------------------------------------------------------- Parquet


def test_parquet_appears_when_it_is_whole() -> None:
    fill("a.parquet", good(1), bad(2), finish=False)
    assert not Path("a.parquet").exists()
    fill("a.parquet", good(3), resume=True)
    rows = table("a.parquet")
    assert [(row["id"], row["value"]) for row in rows] == [("1", '{"n": 1}'), ("2", None), ("3", '{"n": 3}')]
    assert rows[1] == {
        "id": "2",
        "value": None,
        "error": "cut\nat 3",
        "error_type": "Truncated",
        "attempts": 2,
    }
    assert sorted(os.listdir()) == ["a.parquet", "a.parquet.run.json"]
    # More documents, another day.
    file = fill("a.parquet", good(4), resume=True)
    assert (file.done, file.errors.total()) == ({"1", "2", "3", "4"}, 1)
    assert [row["id"] for row in table("a.parquet")] == ["1", "2", "3", "4"]


def test_a_kill_between_the_whole_file_and_the_end_of_its_journal_doubles_nothing() -> None:
    fill("a.parquet", good(1), good(2), finish=False)
    journal = Path("a.parquet.partial.jsonl").read_bytes()
    fill("a.parquet", resume=True)
    Path("a.parquet.partial.jsonl").write_bytes(journal)
    assert fill("a.parquet", good(3), resume=True).done == {"1", "2", "3"}
    assert [row["id"] for row in table("a.parquet")] == ["1", "2", "3"]


def test_parquet_without_results_has_its_columns() -> None:
    fill("a.parquet")
    fill("b.parquet", details=("spans",))
    import pyarrow.parquet

    names = ["id", "value", "error", "error_type", "attempts"]
    assert pyarrow.parquet.read_schema("a.parquet").names == names
    assert pyarrow.parquet.read_schema("b.parquet").names == [*names, "spans"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_documents_that_failed_can_be_tried_again(name: str) -> None:
    fill(name, good(1), bad(2), bad(3))
    file = fill(name, good(2), bad(3), resume=True, retry_errors=True)
    assert (file.done, file.errors.total()) == ({"1", "2", "3"}, 1)
    rows = table(name) if name.endswith("t") else lines(name)
    assert [(row["id"], row["error"] is None) for row in rows] == [("1", True), ("2", True), ("3", False)]


def test_what_failed_is_tried_again_with_other_limits() -> None:
    """The remedies that errors name; the settings of each run stand beside the results."""
    fill("a.jsonl", good(1), bad(2))
    longer = {**SETTINGS, "max_tokens": 900, "temperature": 0.0}
    with pytest.raises(DocumentError, match="--retry-errors takes other limits"):
        ResultFile("a.jsonl", longer, resume=True)
    with pytest.raises(DocumentError, match="other settings"):
        ResultFile("a.jsonl", {**longer, "model": "other"}, resume=True, retry_errors=True)
    with ResultFile("a.jsonl", longer, resume=True, retry_errors=True) as file:
        assert file.done == {"1"}
        file.write(good(2))
    told = json.loads(Path("a.jsonl.run.json").read_text())
    assert (told["settings"], told["retried_with"]) == ({**SETTINGS}, [longer])
    for settings in (SETTINGS, longer):
        with ResultFile("a.jsonl", settings, resume=True) as file:
            assert file.done == {"1", "2"}


# ---------------------------------------------------------------- refusals


def test_a_file_that_is_there_is_not_written_over() -> None:
    fill("a.jsonl", good(1))
    with pytest.raises(DocumentError, match=r"a\.jsonl exists already\n  -> pass --resume"):
        ResultFile("a.jsonl", SETTINGS)
    Path("b.jsonl").write_text('{"id": "mine"}\n')
    with pytest.raises(DocumentError, match=r"b\.jsonl exists already"):
        ResultFile("b.jsonl", SETTINGS)
    with pytest.raises(DocumentError, match=r"b\.jsonl\.run\.json does not tell"):
        ResultFile("b.jsonl", SETTINGS, resume=True)
    assert Path("b.jsonl").read_text() == '{"id": "mine"}\n'


def test_other_settings_are_named_one_by_one() -> None:
    fill("a.jsonl", good(1))
    with pytest.raises(DocumentError) as caught:
        ResultFile("a.jsonl", {"model": "tiny", "temperature": 0, "seed": 1}, resume=True)
    places = [(problem.place, problem.value, problem.reason) for problem in caught.value.problems]
    assert places == [("seed", 1, "was null"), ("temperature", 0, "was 0.5")]
    assert fill("a.jsonl", resume=True).done == {"1"}, "an absent setting is null"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.csv", "results are not written to such a file"),
        ("no/a.jsonl", "there is no folder"),
        ("no", "such a file"),
    ],
)
def test_places_where_results_cannot_be(name: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        ResultFile(name, SETTINGS)
