"""`constrained extract FILES --out RESULTS`: every document once, whatever interrupts the run.

A scripted model says the city that stands after "From" in its prompt, so a value tells which document it is of.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from constrained.cli.extraction_options import ExtractionOptions
from tests.cli.test_cli import Cli, Ended, cli
from tests.support.paths import ROOT

__all__ = ["cli"]
SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
posix = pytest.mark.skipif(os.name != "posix", reason="signals and descriptors as POSIX has them")


def say_city(prompt: str) -> str:
    found = re.findall(r"From (\w+)", prompt)
    return json.dumps({"city": found[-1] if found else "nowhere"}, ensure_ascii=False)


Run = Callable[..., Ended]


@pytest.fixture
def run(cli: Cli) -> Run:
    """The command with files; the schema and the script are given."""
    return lambda *names, **more: cli("extract", *names, "-s", SCHEMA, **{"script": say_city, **more})


def documents(count: int, name: str = "docs.jsonl") -> str:
    Path(name).write_text(
        "".join(json.dumps({"id": i, "text": f"From City{i}"}) + "\n" for i in range(count))
    )
    return name


def results(name: str) -> dict[str, Any]:
    rows = [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]
    assert len({row["id"] for row in rows}) == len(rows), "an id is there twice"
    return {row["id"]: row["value"] if row["error"] is None else row["error_type"] for row in rows}


def cities(*numbers: int) -> dict[str, Any]:
    return {str(number): {"city": f"City{number}"} for number in numbers}


# ---------------------------------------------------------------- files in, results out


def test_documents_of_all_kinds_of_files_become_results(run: Run) -> None:
    documents(3)
    Path("t.csv").write_text('key,body,more\n7,From Rome,x\n8,"From\nBonn, From Oslo",y\n')
    Path("letters").mkdir()
    Path("letters/Göteborg.txt").write_text("From Göteborg")
    ended = run("docs.jsonl", "letters/*.txt", "--out", "a.jsonl")
    assert (ended.code, ended.out) == (0, "")
    assert re.fullmatch(r"4 of 4 documents have a result in a\.jsonl; [0-9.]+ a second\n", ended.err)
    assert results("a.jsonl") == cities(0, 1, 2) | {"letters/Göteborg.txt": {"city": "Göteborg"}}
    ended = run("t.csv", "--text-column", "body", "--id-column", "key", "--out", "b.jsonl", "--quiet")
    assert ended == Ended(0, "", "")
    assert results("b.jsonl") == {"7": {"city": "Rome"}, "8": {"city": "Oslo"}}


def test_parquet_in_and_out(run: Run) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"id": [1, 2], "text": ["From Rome", None]}), "t.parquet")
    ended = run("t.parquet", "--out", "r.parquet")
    assert ended.code == 5
    assert "2 of 2 documents have a result, 1 PromptError, in r.parquet" in ended.err
    rows = {row["id"]: row for row in pyarrow.parquet.read_table("r.parquet").to_pylist()}
    assert json.loads(rows["1"]["value"]) == {"city": "Rome"}
    assert (rows["2"]["value"], rows["2"]["error_type"]) == (None, "PromptError")
    assert "the text is empty" in rows["2"]["error"]


@pytest.mark.parametrize("out", ["r.jsonl", "r.parquet"])
def test_places_and_probabilities_are_columns(run: Run, out: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet") if out.endswith("parquet") else None
    Path("docs.jsonl").write_text('{"id": 0, "text": ""}\n{"id": 1, "text": "From Rome"}\n')
    assert run("docs.jsonl", "--details", "spans,fields", "--out", out).code == 5
    documents(3, "more.jsonl")
    assert run("more.jsonl", "--details", "spans, fields", "--out", out, "--resume").code == 5
    if parquet:
        rows = parquet.read_table(out).to_pylist()
        for row in rows:
            row |= {name: row[name] and json.loads(row[name]) for name in ("value", "spans", "fields")}
    else:
        rows = [json.loads(line) for line in Path(out).read_text().splitlines()]
    assert {row["id"]: row["spans"] for row in rows} == {
        "0": None,
        "1": {"/city": {"start": 5, "end": 9, "how": "exact"}},
        "2": {"/city": {"start": 5, "end": 10, "how": "exact"}},
    }
    failed, *read = sorted(rows, key=lambda row: row["id"])
    assert failed["fields"] is None
    for row in read:
        assert row["fields"].keys() == {"/city"}
        assert row["fields"]["/city"]["choice"] == row["value"]["city"][0]
        assert -1e-6 < row["fields"]["/city"]["logprob"] <= 0
    ended = run("more.jsonl", "--details", "spans", "--out", out, "--resume")
    assert (ended.code, "details" in ended.err) == (2, True)


def test_results_can_go_to_standard_output_and_documents_come_from_standard_input(run: Run) -> None:
    ended = run("-", "--out", "-", stdin=b'{"text": "From Rome"}\n{"id": "x", "text": "From Bonn"}\n')
    assert (ended.code, ended.err) == (0, "")
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert {row["id"]: row["value"]["city"] for row in rows} == {"stdin:1": "Rome", "x": "Bonn"}


def test_an_empty_file_gives_an_empty_result(run: Run) -> None:
    Path("e.jsonl").write_text("")
    assert run("e.jsonl", "--out", "r.jsonl").code == 0
    assert Path("r.jsonl").read_bytes() == b""


def test_values_of_a_choice_are_json_strings(cli: Cli) -> None:
    documents(1)
    assert (
        cli(
            "extract",
            "docs.jsonl",
            "--choice",
            "true,false",
            "--no-decisions",
            "--out",
            "r.jsonl",
            script="true",
        ).code
        == 0
    )
    assert results("r.jsonl") == {"0": "true"}


def test_options_of_reading_are_those_of_the_extractor() -> None:
    assert ExtractionOptions().arguments() == {}
    given = ExtractionOptions(lists="whole", no_decisions=True, split=True, retries=2)
    assert given.arguments() == {"lists": "whole", "decisions": False, "long": "split", "retries": 2}


# ---------------------------------------------------------------- errors


def test_errors_are_rows_or_a_file_of_their_own_and_the_exit_code_tells(run: Run) -> None:
    Path("d.jsonl").write_text('{"id": 1, "text": "From Rome"}\n{"id": 2, "text": " "}\n')
    assert run("d.jsonl", "--out", "a.jsonl").code == 5
    assert results("a.jsonl") == {"1": {"city": "Rome"}, "2": "PromptError"}
    assert run("d.jsonl", "--out", "b.jsonl", "--errors", "e.jsonl").code == 5
    assert results("b.jsonl") == {"1": {"city": "Rome"}}
    assert results("e.jsonl") == {"2": "PromptError"}
    # The documents that failed have a result, too, unless they are to be read again.
    assert run("d.jsonl", "--out", "a.jsonl", "--resume", script="never said").code == 5
    Path("d.jsonl").write_text('{"id": 1, "text": "From Rome"}\n{"id": 2, "text": "From Oslo"}\n')
    assert run("d.jsonl", "--out", "a.jsonl", "--resume", "--retry-errors").code == 0
    assert results("a.jsonl") == {"1": {"city": "Rome"}, "2": {"city": "Oslo"}}


def test_a_fault_in_every_file_ends_the_run_before_the_model_is_loaded(run: Run) -> None:
    def fail(prompt: str) -> str:
        raise AssertionError("the model was asked")

    documents(3)
    Path("bad.jsonl").write_bytes(b'{"text": "a"}\n{"text": "caf\xe9"}\n')
    Path("latin.txt").write_bytes(b"caf\xe9")
    ended = run("bad.jsonl", "latin.txt", "--out", "r.jsonl", script=fail)
    assert ended.code == 2
    assert "error: bad.jsonl, line 2: not UTF-8 text" in ended.err
    assert not Path("r.jsonl").exists()
    ended = run("docs.jsonl", "docs.jsonl", "--out", "r.jsonl", script=fail)
    assert ended.code == 2
    assert "the id '0' is there twice: docs.jsonl, line 1" in ended.err


@pytest.mark.parametrize("out", ["r.jsonl", "-"])
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_read(run: Run, out: str) -> None:
    """Nothing of it has a result, whatever came before the fault; once it is mended, the run goes on with it."""
    documents(2)
    Path("a_latin.txt").write_bytes(b"From Bonn, caf\xe9")
    Path("bad.jsonl").write_bytes(b'{"id": "x", "text": "From Oslo"}\n{"text": "caf\xe9"}\n')
    Path("good.txt").write_text("From Rome")
    files = ("a_latin.txt", "bad.jsonl", "docs.jsonl", "good.txt")
    ended = run(*files, "--out", out)
    assert ended.code == 5
    assert "error: a_latin.txt, line 1: not UTF-8 text" in ended.err
    assert "error: bad.jsonl, line 2: not UTF-8 text" in ended.err
    rest = cities(0, 1) | {"good.txt": {"city": "Rome"}}
    if out == "-":
        assert {json.loads(line)["id"] for line in ended.out.splitlines()} == set(rest)
        return
    assert "3 of 3 documents have a result in r.jsonl" in ended.err
    assert "2 of the files could not be read" in ended.err
    assert results("r.jsonl") == rest
    Path("a_latin.txt").write_text("From Bonn, café", encoding="utf-8")
    Path("bad.jsonl").write_text('{"id": "x", "text": "From Oslo"}\n')
    assert run(*files, "--out", out, "--resume").code == 0
    assert results("r.jsonl") == rest | {"a_latin.txt": {"city": "Bonn"}, "x": {"city": "Oslo"}}


def test_a_fault_of_standard_input_keeps_what_came_before(run: Run) -> None:
    ended = run("-", "--out", "r.jsonl", stdin=b'{"id": 0, "text": "From City0"}\n{"id": 1}\n')
    assert ended.code == 2
    assert "1 documents have a result in r.jsonl; to go on: constrained" in ended.err
    assert "error: stdin, line 2: there is no 'text'" in ended.err
    assert results("r.jsonl") == cities(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("docs.jsonl",), "'docs.jsonl' is the name of a file, and TEXT is the text itself"),
        (("a", "b"), "2 texts were given\n  -> for files of documents, say where results go: --out"),
        (("x", "--resume"), "--resume needs --out"),
        (("x", "--text-column", "t"), "--text-column needs --out"),
        (
            ("docs.jsonl", "--details", "places", "--out", "r.jsonl"),
            "details of results are spans, fields, partial",
        ),
        (("--out", "r.jsonl"), "no files were given"),
        (("docs.jsonl", "--out", "r.csv"), "r.csv: results are not written to such a file"),
        (("docs.jsonl", "--out", "-", "--resume"), "--resume and --errors need a file for --out"),
        (("docs.jsonl", "--out", "r.jsonl", "--retry-errors"), "--retry-errors needs --resume"),
        (("docs.jsonl", "--out", "r.jsonl", "--actors", "2"), "--actors is an option of --backend ray"),
        (("docs.jsonl", "--out", "r.jsonl", "--stream"), "--indent and --stream are for one text"),
        (("docs.jsonl", "--out", "r.jsonl", "-f", "docs.jsonl"), "--file is for one text"),
        (("docs.jsonl", "--out", "r.jsonl", "--text-column", "body"), "there is no 'body'"),
        (("docs.jsonl", "--out", "r.jsonl", "--sampler", "best"), "best"),
        (("docs.jsonl", "--out", "r.jsonl", "--temperature", "-1"), "temperature"),
        (("letter.pdf", "--out", "r.jsonl"), "pdftotext -layout letter.pdf letter.txt"),
    ],
)
def test_wrong_usage_is_an_error_that_says_what_to_do(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    documents(1)
    ended = run(*arguments)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""
    assert not any(Path(name).exists() for name in ("r.jsonl", "r.jsonl.run.json"))


def test_a_text_that_is_no_file_name_stays_a_text(run: Run) -> None:
    Path("folder").mkdir()
    for text in ("From Rome", "folder", "a/b\0c" if os.name != "posix" else "From\nOslo", "x" * 5000):
        assert run(text).code == 0


def test_a_result_that_the_token_limit_cut_is_an_error_unless_it_may_be_closed(run: Run) -> None:
    documents(2)
    assert run("docs.jsonl", "--out", "a.jsonl", "--max-tokens", "14").code == 5
    assert results("a.jsonl") == {"0": "Truncated", "1": "Truncated"}
    closed = ("--max-tokens", "14", "--on-limit", "close")
    assert run("docs.jsonl", "--out", "b.jsonl", *closed).code == 0
    assert set(results("b.jsonl")) == {"0", "1"}
    assert "on_limit" in run("docs.jsonl", "--out", "a.jsonl", "--resume", *closed).err


def test_what_the_model_is_told_reaches_the_prompt(run: Run) -> None:
    """For one text and for files; the value is the last city of the prompt but for the document's."""

    def say_told(prompt: str) -> str:
        return json.dumps({"city": "_".join(re.findall(r"(?:Look|About|From) (\w+)", prompt))})

    Path("examples.jsonl").write_text('{"text": "From Bonn", "value": {"city": "Bonn"}}\n\n')
    told = ("--instructions", "Look well", "--context", "About Rome", "--examples", "examples.jsonl")
    ended = run("From Oslo", *told, script=say_told)
    assert ended.code == 0, ended.err
    words = json.loads(ended.out)["city"].split("_")
    assert set(words) == {"well", "Rome", "Bonn", "Oslo"}
    documents(1)
    assert run("docs.jsonl", *told, "--out", "r.jsonl", script=say_told).code == 0
    assert set(results("r.jsonl")["0"]["city"].split("_")) == {"well", "Rome", "Bonn", "City0"}
    assert "instructions" in run("docs.jsonl", "--out", "r.jsonl", "--resume").err


def test_a_prompt_of_ones_own_and_a_draft(run: Run) -> None:
    def say_told(prompt: str) -> str:
        return json.dumps({"city": "_".join(re.findall(r"(?:Be|Read|From|Write) (\w+)", prompt))})

    told = ("--system", "Be exact", "--prompt", "Read well: {text}")
    ended = run("From Oslo", *told, script=say_told)
    assert (ended.code, json.loads(ended.out)) == (0, {"city": "exact_well_Oslo"})
    ended = run("From Oslo", *told, "--draft-first", script=say_told)
    assert json.loads(ended.out) == {"city": "exact_well_Oslo_this"}


def test_grounding_allows_only_what_stands_in_the_document(run: Run) -> None:
    invent = '{"city": "Atlantis"}'
    assert json.loads(run("From Rome", script=invent).out) == {"city": "Atlantis"}
    ended = run("From Rome", "--require-grounding", script=invent)
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["city"] in "From Rome"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--examples", "no.jsonl"), "no.jsonl cannot be read"),
        (("--examples", "bad.jsonl"), "bad.jsonl, line 2: not an example"),
        (("--examples", "wrong.jsonl"), "example 0"),
        (("--chunk-tokens", "9"), "--chunk-tokens needs --split"),
        (("--retries", "1", "--stream"), "--stream does not go with --retries"),
        (("--prompt", "Read."), "{text}"),
        (("--prompt", "template"), "no place for it"),
        (("--thinking", "9", "--draft-first"), "thinking and draft_first both come first"),
        (("--thinking", "9"), "shows no reasoning"),
    ],
)
def test_wrong_settings_of_the_prompt(run: Run, arguments: tuple[str, ...], message: str) -> None:
    example = '{"text": "x", "value": {"city": "y"}}\n'
    Path("bad.jsonl").write_text(example + '{"text": "x"}\n')
    Path("wrong.jsonl").write_text(example.replace('"y"', "5"))
    ended = run("From Rome", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


# ---------------------------------------------------------------- going on


def test_a_run_is_not_written_over_and_goes_on_with_resume(run: Run) -> None:
    documents(2)
    assert run("docs.jsonl", "--out", "r.jsonl").code == 0
    assert "r.jsonl exists already\n  -> pass --resume" in run("docs.jsonl", "--out", "r.jsonl").err
    documents(4)
    assert run("docs.jsonl", "--out", "r.jsonl", "--resume").code == 0
    assert results("r.jsonl") == cities(0, 1, 2, 3)
    before = Path("r.jsonl").read_bytes()
    assert run("docs.jsonl", "--out", "r.jsonl", "--resume", script="not loaded").code == 0
    assert Path("r.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--temperature", "0.5"), "temperature: 0.5     was null"),
        (("--max-tokens", "50"), "max_tokens: 50     was null"),
        (("--model", "other"), 'model: "other"     was "bundled"'),
        (("--open",), "constraint_key"),
    ],
)
def test_other_settings_are_refused_by_name(run: Run, change: tuple[str, ...], message: str) -> None:
    documents(1)
    run("docs.jsonl", "--out", "r.jsonl")
    before = Path("r.jsonl").read_bytes()
    documents(2)
    ended = run("docs.jsonl", "--out", "r.jsonl", "--resume", *change)
    assert ended.code == 2
    assert "the results were made with other settings" in ended.err
    assert message in ended.err
    assert Path("r.jsonl").read_bytes() == before
    assert run("docs.jsonl", "--out", "r.jsonl", "--resume", "--batch-size", "2").code == 0


def start(*arguments: str, pause: float = 0.002, **options: Any) -> subprocess.Popen[bytes]:
    driver = str(ROOT / "tests" / "tools" / "cli_driver.py")
    command = [sys.executable, driver, '{"city": "Rome"}', str(pause), "extract", *arguments, "-s", SCHEMA]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)


@pytest.mark.ci
@posix
def test_ctrl_c_keeps_the_results_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    documents(2000)
    process = start("docs.jsonl", "--out", "r.jsonl", "--batch-size", "4", pause=0.001)
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)  # its lines are many: the pipe must not fill up
    err = b""
    while not Path("r.jsonl").exists() or Path("r.jsonl").read_bytes().count(b"\n") < 5:
        err += process.stderr.read() or b""
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    os.set_blocking(process.stderr.fileno(), True)
    err = (err + process.communicate(timeout=60)[1]).replace(b"thinking\n", b"")
    assert process.returncode == 130
    found = re.fullmatch(
        rb"(\d+) of 2,000 documents have a result in r\.jsonl; to go on: constrained .* --resume\n"
        rb"interrupted\n",
        err,
    )
    assert found, err
    assert len(results("r.jsonl")) == int(found[1])


@pytest.mark.ci
@posix
def test_a_reader_that_goes_away_ends_a_run_to_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    documents(50)
    reading, writing = os.pipe()
    os.close(reading)
    process = start("docs.jsonl", "--out", "-", pause=0.0, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_progress_is_lines_where_there_is_no_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from constrained.cli import extract_files

    monkeypatch.setattr(extract_files, "_LINE_SECONDS", 0.0)
    documents(3)
    ended = run("docs.jsonl", "--out", "r.jsonl", "--stats")
    lines = ended.err.splitlines()
    assert re.fullmatch(r"1 of 3 documents, [0-9.]+ a second, \d+ s left", lines[0])
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (90, "2 min"), (3700, "1 h 2 min")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    from constrained.cli.extract_files import _duration

    assert _duration(seconds) == text


@pytest.mark.parametrize("out", ["r.jsonl", "r.parquet"])
def test_a_row_keeps_the_text_that_the_limit_cut(run: Run, out: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet") if out.endswith("parquet") else None
    Path("docs.jsonl").write_text(
        '{"id": 1, "text": "From Rome"}\n{"id": 2, "text": "From Llanfairpwllgwyngyll"}\n'
    )
    ended = run("docs.jsonl", "--details", "partial", "--max-tokens", "18", "--out", out)
    assert "2 of 2 documents have a result, 1 Truncated, in" in ended.err
    rows = (
        parquet.read_table(out).to_pylist()
        if parquet
        else [json.loads(line) for line in Path(out).read_text().splitlines()]
    )
    partial = {row["id"]: row["partial"] for row in rows}
    assert partial["1"] is None
    assert partial["2"].startswith('{"city": "Llanf')
