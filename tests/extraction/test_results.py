"""Files of results: every result once, whatever interrupts the run, and never half a file that looks whole."""

from __future__ import annotations

import json
import os
import shutil
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


# ---------------------------------------------------------------- what may happen to a run


def test_a_file_of_errors_is_one_process_too() -> None:
    """Runs of other results wrote to one file of errors; each cut off what the other was writing."""
    for name in ("a.jsonl", "b.jsonl"):
        fill(name, good(1), finish=False, errors="e.jsonl")
    with (
        ResultFile("a.jsonl", SETTINGS, errors="e.jsonl", resume=True),
        pytest.raises(DocumentError, match=r"another process writes to the results of e\.jsonl"),
    ):
        ResultFile("b.jsonl", SETTINGS, errors="e.jsonl", resume=True)


@posix
def test_a_link_to_results_is_the_same_file() -> None:
    fill("a.jsonl", good(1), finish=False)
    os.symlink("a.jsonl", "b.jsonl")
    shutil.copy("a.jsonl.run.json", "b.jsonl.run.json")
    with (
        ResultFile("a.jsonl", SETTINGS, resume=True),
        pytest.raises(DocumentError, match=r"another process writes to the results of b\.jsonl"),
    ):
        ResultFile("b.jsonl", SETTINGS, resume=True)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_errors_are_not_written_into_the_results_themselves(name: str) -> None:
    """Beside Parquet that file was cut to nothing by the next run."""
    with pytest.raises(DocumentError, match="leave out the file of errors"):
        ResultFile(name, {}, errors=f"./{name}")
    assert not os.listdir()


def test_lines_that_are_no_results_are_named() -> None:
    fill("a.jsonl", good(1))
    Path("e.jsonl").write_text('{"id": 1, "text": "a document"}\n')
    with pytest.raises(DocumentError, match=r"e\.jsonl has lines that are no results"):
        ResultFile("a.jsonl", SETTINGS, errors="e.jsonl", resume=True)
    assert Path("e.jsonl").read_text() == '{"id": 1, "text": "a document"}\n'


RUNS = """
    import json, os, random, resource, signal, sys
    from constrained.errors import DocumentError
    from constrained.extraction.files.results import ResultFile, ResultRow

    def run(name, limit, count, last):
        try:
            with ResultFile(name, {"max_tokens": limit}, resume=True, retry_errors=True) as file:
                for number in range(count):
                    if str(number) not in file.done:
                        failed = number % 3 == 0 and not last
                        error = ("cut", "Truncated") if failed else (None, None)
                        file.write(ResultRow(str(number), None if failed else '"' + "x" * 300 + '"', *error))
                file.finish()
        except DocumentError as error:
            print(str(error).splitlines()[0], flush=True)
"""
"""`run`: each run tries again what failed in the earlier ones, with another limit."""

FULL = """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for size in json.loads(sys.argv[2]):
        if os.fork() == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            run(sys.argv[1], size, 20, last=False)
            os._exit(0)
        assert os.wait()[1] == 0
        assert not [name for name in os.listdir() if name.endswith(".tmp")]
    run(sys.argv[1], 0, 20, last=True)
"""

KILLED = """
    draw = random.Random(0)
    for limit in range(int(sys.argv[2])):
        if (child := os.fork()) == 0:
            run(sys.argv[1], limit, 2000, last=False)
            os._exit(0)
        signal.sigtimedwait([], draw.uniform(0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.wait()
    run(sys.argv[1], 0, 2000, last=True)
"""


def ended(program: str, *arguments: str) -> list[str]:
    """What a program that uses `run` says."""
    text = textwrap.dedent(RUNS) + textwrap.dedent(program)
    process = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.splitlines()


def check_whole(name: str, count: int) -> None:
    """Every document has one result, and no other files are left."""
    rows = lines(name) if name.endswith("jsonl") else table(name)
    assert sorted(int(row["id"]) for row in rows) == list(range(count))
    assert not any(row["error"] for row in rows)
    assert sorted(os.listdir()) == [name, f"{name}.run.json"]


SOME, MANY = [0, 80, 500, 2000, 3000, 4000], [*range(0, 1000, 20), *range(1000, 5000, 130)]


@posix
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize("sizes", [SOME, pytest.param(MANY, marks=pytest.mark.slow)], ids=["some", "many"])
def test_a_disk_that_is_full_at_any_place_loses_no_result(name: str, sizes: list[int]) -> None:
    """In the settings, which a full disk left empty for ever, in a row, in what is tried again, or in the whole file."""
    said = ended(FULL, name, json.dumps(sizes))
    assert len(said) >= len(sizes) - 2
    assert {line.partition(" cannot be written: ")[2] for line in said} == {"file too large"}
    check_whole(name, 20)


@posix
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_runs_with_other_limits_end_with_every_result_once(name: str, kills: int) -> None:
    assert ended(KILLED, name, str(kills)) == []
    check_whole(name, 2000)
