"""JSONSchemaBench runs: data, rows of every status, going on after an interruption, and the reports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from constrained import InvalidArgument
from constrained.bench.harness.results import ROWS, RunResults, read_rows
from constrained.bench.harness.tables import median_interval
from constrained.bench.jsonschemabench import data, judging, vllm_server
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.jsonschemabench.compare import compare
from constrained.bench.jsonschemabench.report import write
from constrained.bench.jsonschemabench.run import PACKAGES, run
from constrained.bench.jsonschemabench.settings import SchemaBenchSettings
from constrained.cli import main
from constrained.cli.intervals import share_interval, sign_test

ITEMS: list[dict[str, Any]] = [
    {
        "id": "Easy---flag",
        "schema": {"type": "boolean"},
        "tests": [{"valid": True, "data": True}, {"valid": False, "data": 3}],
    },
    {"id": "Easy---colour", "schema": {"enum": ["red", "green"]}, "tests": [{"valid": True, "data": "red"}]},
    {"id": "Hard---back", "schema": {"type": "string", "pattern": r"(a)\1"}, "tests": []},
    {"id": "Hard---long", "schema": {"type": "string", "minLength": 400}, "tests": []},
]


Results = RunResults[r.SchemaBenchRow]
MODEL = "tests.support.jsonschemabench_parts:scripted"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    folder = tmp_path_factory.mktemp("bench")
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS), encoding="utf-8")
    settings = SchemaBenchSettings(
        str(path), engines=("constrained", "constrained-any"), max_tokens=60, models=(MODEL,), processes=2
    )
    return run(settings, folder / "out"), folder


def test_every_schema_has_a_row_with_a_status(results: tuple[Results, Path]) -> None:
    found, folder = results
    assert not found.unavailable
    assert set(found.facts["versions"]) == {"constrained", "constrained-any"}
    for engine in found.facts["versions"]:
        statuses = {row.id: row.status for row in found.rows if row.engine == engine}
        assert statuses == {
            "Easy---flag": r.OK,
            "Easy---colour": r.OK,
            "Hard---back": r.REFUSED,
            "Hard---long": r.TRUNCATED,
        }
    assert len((folder / "out" / ROWS).read_text().splitlines()) == 8


def test_a_row_has_the_text_and_the_time(results: tuple[Results, Path]) -> None:
    (row,) = [one for one in results[0].rows if (one.engine, one.id) == ("constrained", "Easy---flag")]
    assert json.loads(row.text or "") in (True, False)
    assert (row.valid, row.valid_2020, row.exact, row.lax) == (True, True, True, False)
    assert row.tokens > 0
    assert row.compile_seconds is not None
    assert row.first_seconds is not None
    (refused,) = [one for one in results[0].rows if (one.engine, one.id) == ("constrained", "Hard---back")]
    assert "#/pattern" in refused.message
    assert not refused.declared


def test_a_run_goes_on_where_it_was_interrupted(file: Path, tmp_path: Path) -> None:
    settings = SchemaBenchSettings(
        str(file), engines=("constrained",), splits=("Easy",), max_tokens=60, models=(MODEL,)
    )
    out = tmp_path / "out"
    first = run(settings, out)
    assert len(first.rows) == 2
    kept, cut = (out / ROWS).read_text().splitlines()
    (out / ROWS).write_text(f"{kept}\n{cut[:20]}")  # ended in the middle of a line
    with pytest.raises(InvalidArgument, match="go on with --resume"):
        run(settings, out)
    again = run(settings, out, resume=True)
    assert sorted(row.id for row in again.rows) == sorted(row.id for row in first.rows)
    assert json.dumps(again.rows[0].to_json()) == json.dumps(json.loads(kept)), "it was not made again"
    assert len(list(read_rows(out, r.SchemaBenchRow))) == 2
    with pytest.raises(InvalidArgument, match="other settings"):
        run(
            SchemaBenchSettings(str(file), engines=("constrained",), max_tokens=50, models=(MODEL,)),
            out,
            resume=True,
        )


def test_a_killed_run_of_two_models_goes_on_with_what_is_missing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [
        "bench",
        "jsonschemabench",
        "--data",
        str(file),
        "--splits",
        "Easy",
        "--max-tokens",
        "60",
        "-q",
    ]
    arguments += [
        "--model",
        MODEL,
        "--model",
        "bundled",
        "--engines",
        "unconstrained,constrained",
        "-o",
        str(out),
    ]
    process = subprocess.Popen([sys.executable, "-m", "constrained.cli", *arguments])
    deadline = time.monotonic() + 120
    while (time.monotonic() < deadline and not (out / ROWS).exists()) or (out / ROWS).stat().st_size == 0:
        time.sleep(0.02)
    process.kill()
    process.wait()
    killed = [line for line in (out / ROWS).read_text().splitlines() if line.endswith("}")]
    assert 0 < len(killed) < 8, "it was killed in the middle"
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--resume"])
    assert not done.value.code
    printed = capsys.readouterr().out
    assert "bundled: all splits" in printed
    assert f"{MODEL}: all splits" in printed
    rows = list(read_rows(out, r.SchemaBenchRow))
    assert len({(row.model, row.engine, row.id) for row in rows}) == len(rows) == 8
    assert (out / ROWS).read_text().splitlines()[: len(killed)] == killed, "they were not made again"
    alone = [row for row in rows if row.engine == "unconstrained"]
    assert all(row.declared for row in alone)
    assert all((row.status == r.OK) == bool(row.valid) for row in alone)


def test_two_runs_side_by_side(
    results: tuple[Results, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = results[1] / "out", tmp_path / "second"
    second.mkdir()
    facts = json.loads((first / "settings.json").read_text())
    facts["settings"]["max_tokens"] = 70
    (second / "settings.json").write_text(json.dumps(facts))
    lines = []
    for row in read_rows(first, r.SchemaBenchRow):
        if row.engine == "constrained":
            if row.id == "Easy---flag":
                row.status = r.INVALID
            row.compile_seconds = None if row.compile_seconds is None else 3 * row.compile_seconds
            lines.append(json.dumps(row.to_json()))
    (second / ROWS).write_text("\n".join(lines))
    whole, changed = compare(first, second)
    assert whole.title == f"constrained, {MODEL}"
    cells = dict(whole.lines)
    assert cells["schemas of both"] == ["4", "4", ""]
    assert cells["declared"][2] == "the same"
    assert cells["empirical"] == ["2 (50.0 %, 15.0–85.0)", "1 (25.0 %, 4.6–69.9)", "+0 -1, p = 1"]
    assert cells["GCT, ms"][2] == "x 3.00"
    assert changed.lines == [("Easy---flag", ["ok", "invalid"])]
    with pytest.raises(SystemExit) as done:
        main(["bench", "compare", str(first), str(second)])
    assert not done.value.code
    assert "max_tokens: 60 | 70" in capsys.readouterr().out
    with pytest.raises(InvalidArgument, match="holds no run"):
        compare(first, tmp_path)


def test_intervals_cover_what_they_say() -> None:
    rng = np.random.default_rng(0)
    shares = sum(
        low <= 0.1 <= high
        for low, high in (share_interval(int(rng.binomial(80, 0.1)), 80) for _ in range(2000))
    )
    assert 0.93 < shares / 2000 < 0.98
    assert share_interval(0, 5)[0] == 0.0
    assert share_interval(5, 5)[1] == 1.0
    for size in (9, 40, 1500):
        inside = 0
        for _ in range(400):
            around = median_interval(rng.exponential(size=size).tolist())
            assert around is not None
            inside += around[0] <= np.log(2) <= around[1]
        assert inside / 400 > 0.92
    assert median_interval([1.0] * 5) is None
    assert sign_test(0, 0) == 1.0
    assert sign_test(0, 6) == pytest.approx(2 / 64)
    assert sign_test(5, 5) == 1.0


def test_engines_that_fail(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    faults = {
        "slow": r.COMPILE_TIMEOUT,
        "dies": r.CRASH,
        "lax": r.INVALID,
        "stuck": r.GENERATION_TIMEOUT,
        "raises": r.CRASH,
        "fine": r.OK,
    }
    path.write_text(
        "".join(
            json.dumps(
                {"unique_id": f"Rough---{fault}", "json_schema": json.dumps({"enum": ["a"], "title": fault})}
            )
            + "\n"
            for fault in faults
        )
    )
    rough = "tests.support.jsonschemabench_parts:Rough"
    settings = SchemaBenchSettings(
        str(path),
        engines=(rough, "no.such:Engine"),
        compile_limit=3,
        time_limit=3,
        max_tokens=20,
        models=(MODEL,),
    )
    found = run(settings, tmp_path / "out")
    assert {row.id.partition("---")[2]: row.status for row in found.rows} == faults
    assert list(found.unavailable) == ["no.such:Engine"]
    (raised,) = [row for row in found.rows if row.id.endswith("raises")]
    assert "no such state" in raised.message
    (late,) = [row for row in found.rows if row.id.endswith("slow")]
    assert not late.declared


def test_the_reports(results: tuple[Results, Path], capsys: pytest.CaptureFixture[str]) -> None:
    found, folder = results
    out = folder / "out"
    whole, easy, hard = write(found, out)
    cells = dict(whole.lines)
    assert cells["schemas"] == ["4", "4"]
    assert cells["repeated"] == ["0 (0.0 %, 0.0–49.0)"] * 2
    assert cells["declared"] == ["3 (75.0 %, 30.1–95.4)"] * 2
    assert cells["empirical"] == ["2 (50.0 %, 15.0–85.0)"] * 2
    assert cells["compliance"] == ["2 (66.7 %, 20.8–93.9)"] * 2
    assert cells["exact (of those with instances)"] == ["2 (100.0 %, 34.2–100.0)"] * 2
    assert {"GCT, ms (2 shared)", "TTFT, ms", "TPOT, ms"} <= cells.keys()
    assert (easy.title, hard.title) == ("Easy", "Hard")
    assert dict(hard.lines)["refused"] == ["1", "1"]
    page = (out / "report.html").read_text()
    assert page.count("<table>") == 3
    assert "http://" not in page, "it needs nothing from elsewhere"
    assert re.findall('href="#(.+?)"', page) == re.findall('id="(.+?)"', page) != []
    assert "| declared | 3 (75.0 %, 30.1–95.4) |" in (out / "report.md").read_text()
    with pytest.raises(SystemExit) as done:
        main(["bench", "report", str(out)])
    assert not done.value.code
    assert "compliance" in capsys.readouterr().out


def test_the_report_counts_repetitions_and_warns_of_other_programs(
    results: tuple[Results, Path], tmp_path: Path
) -> None:
    rows = [r.SchemaBenchRow("constrained", "a---1", "a", text="[1, 1, 1, 1, 1, 1, 1]", phase="generate")]
    about = results[0].facts
    for load, warns in ((2.0, False), (2.1, True)):
        machine = about["machine"] | {"cores": 2, "load": 0.5, "highest_load": load}
        (table,) = write(RunResults(rows, about | {"machine": machine}), tmp_path)
        assert dict(table.lines)["repeated"] == ["1 (100.0 %, 20.7–100.0)"]
        page = (tmp_path / "report.md").read_text()
        assert ("2.1 at its highest: times not to be trusted: load over cores" in page) is warns


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vllm is installed")
def test_a_backend_that_is_not_installed_is_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = ["bench", "jsonschemabench", "--data", str(file), "--backend", "vllm", "-o", str(out)]
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--engines", "constrained"])
    assert done.value.code
    said = capsys.readouterr()
    assert "pip install 'constrained-generation[vllm]'" in said.err
    assert "written to" not in said.err
    assert not out.exists()


def test_the_reports_of_nothing_say_so(tmp_path: Path, results: tuple[Results, Path]) -> None:
    assert write(RunResults([], results[0].facts), tmp_path) == []
    assert "no rows yet" in (tmp_path / "report.html").read_text()


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["bench", "jsonschemabench", "--data", str(file), "--splits", "Easy", "--sample", "1"]
    with pytest.raises(SystemExit) as done:
        main(
            [
                *arguments,
                "--engines",
                "constrained",
                "--model",
                MODEL,
                "--max-tokens",
                "60",
                "-o",
                str(out),
                "-q",
            ]
        )
    assert not done.value.code
    assert "1 (100.0 %, 20.7–100.0)" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} >= {
        "rows.jsonl",
        "report.md",
        "report.html",
        "settings.json",
    }


def test_data_from_a_checkout(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "Glaiveai2K"
    folder.mkdir(parents=True)
    for name in ("b", "a"):
        (folder / f"{name}.json").write_text('{"type": "null"}')
    items = data.read(str(tmp_path))
    assert [(item.id, item.split) for item in items] == [
        ("Glaiveai2K---a", "Glaiveai2K"),
        ("Glaiveai2K---b", "Glaiveai2K"),
    ]


@pytest.mark.parametrize(
    ("name", "split"), [("Github_easy---o1", "Github_easy"), ("BFCL_java_1", "BFCL"), ("7", "other")]
)
def test_splits_are_named_by_ids(name: str, split: str) -> None:
    assert data.split_of(name) == split


def test_the_same_seed_draws_the_same_schemas() -> None:
    items = [data.SchemaItem(f"{split}---{i}", split, True) for split in "AB" for i in range(50)]
    drawn = data.draw(items, (), 5, 1)
    assert drawn == data.draw(items[::-1], (), 5, 1) != data.draw(items, (), 5, 2)
    assert [item.split for item in drawn] == ["A"] * 5 + ["B"] * 5
    assert data.draw(items, ("B",), 0, 1)[0].split == "B"
    with pytest.raises(InvalidArgument, match="'C'"):
        data.draw(items, ("C",), 1, 1)


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1]"])
def test_data_that_cannot_be_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    with pytest.raises(InvalidArgument):
        data.read(str(path))


def test_a_data_set_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidArgument, match="datasets"):
        data.read("some/dataset")


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, which keeps what it reads in a folder of this test and asks nobody."""
    package = pytest.importorskip("datasets", reason="data sets are read by it: pip install datasets")
    monkeypatch.setattr(package.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(package.config, "HF_HUB_OFFLINE", True)
    return package


def published(datasets: Any, rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Splits of a data set with the columns that JSONSchemaBench has."""
    return {
        split: datasets.Dataset.from_list(
            [{"json_schema": json.dumps(row["schema"]), "unique_id": row["id"]} for row in some]
        )
        for split, some in rows.items()
    }


@pytest.mark.filterwarnings("default")  # those of the package are its own
def test_a_data_set_as_it_is_published(datasets: Any, tmp_path: Path) -> None:
    folder = tmp_path / "JSONSchemaBench"
    heads = []
    for name in ("Easy", "Hard"):
        rows = [one for one in ITEMS if one["id"].startswith(name)]
        (folder / name).mkdir(parents=True)
        for split, part in published(datasets, {"train": rows[:1], "test": rows[1:]}).items():
            part.to_parquet(folder / name / f"{split}-00000-of-00001.parquet")
        heads.append(f"- config_name: {name}\n  data_files:\n")
        heads += [f"  - split: {split}\n    path: {name}/{split}-*\n" for split in ("train", "test")]
    heads.append("- config_name: default\n  data_files:\n  - split: train\n    path: '*/train-*'\n")
    (folder / "README.md").write_text("---\nconfigs:\n" + "".join(heads) + "---\n")
    items = data.read(str(folder))
    assert {(item.id, item.split) for item in items} == {
        (one["id"], one["id"].partition("---")[0]) for one in ITEMS
    }
    assert len(items) == len(ITEMS), "the configuration that holds all of them counts none twice"
    assert {item.id: item.schema for item in items} == {one["id"]: one["schema"] for one in ITEMS}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("whole", [True, False])
def test_a_data_set_that_was_saved(datasets: Any, tmp_path: Path, whole: bool) -> None:
    parts = datasets.DatasetDict(published(datasets, {"train": ITEMS[:2], "test": ITEMS[2:]}))
    folder = tmp_path / "saved"
    (parts if whole else parts["train"]).save_to_disk(folder)
    wanted = ITEMS if whole else ITEMS[:2]
    assert [(item.id, item.split, item.schema) for item in data.read(str(folder))] == [
        (one["id"], one["id"].partition("---")[0], one["schema"]) for one in wanted
    ]


@pytest.mark.filterwarnings("default")
def test_a_data_set_that_cannot_be_had(datasets: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no-such/benchmark"):
        data.read("no-such/benchmark")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="empty"):
        data.read(str(tmp_path / "empty"))


def test_both_verdicts() -> None:
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert judging.judge(draft4, "1")[0] is False
    assert judging.judge({"format": "ipv4"}, '"10.0.0.1"')[:2] == (True, False)
    assert judging.judge({"type": "string"}, "3")[:2] == (False, False)
    assert "not JSON" in judging.judge({}, "{")[2]
    assert "judge failed" in judging.judge({"$ref": "#/nowhere"}, "3")[2]


@pytest.mark.parametrize(
    ("text", "valid"), [("100", True), ("2000/x", True), ("7#", True), ("01", False), ("1/~2", False)]
)
def test_digits_may_follow_a_zero_in_a_relative_pointer(text: str, valid: bool) -> None:
    assert judging.judge({"format": "relative-json-pointer"}, f'"{text}"')[0] is valid


def test_settings_are_checked() -> None:
    for wrong in ({"engines": ()}, {"engines": ("x",)}, {"max_tokens": 0}, {"time_limit": 0}, {"sample": -1}):
        with pytest.raises(InvalidArgument):
            SchemaBenchSettings("x", **wrong)  # type: ignore[arg-type]


def test_a_request_whose_server_dies_is_repeated_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the request that ends the server is a crash, not those beside it."""
    starts = []

    class Server:
        runs = True

        def __init__(self, *arguments: object) -> None:
            starts.append(arguments)

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def start(self) -> None:
            self.runs = True
            starts.append(())

        def row(self, item: data.SchemaItem) -> r.SchemaBenchRow:
            self.runs = self.runs and item.id != "Hard---back"
            status = r.OK if self.runs else r.CRASH
            return r.SchemaBenchRow("constrained", item.id, item.split, status)

    monkeypatch.setattr(vllm_server, "VllmServer", Server)
    monkeypatch.delitem(PACKAGES, "vllm-server")  # this server needs none
    settings = SchemaBenchSettings(str(file), engines=("constrained",), backend="vllm-server", processes=2)
    rows = run(settings, tmp_path / "out").rows
    assert {row.id: row.status for row in rows} == {
        item["id"]: r.CRASH if item["id"] == "Hard---back" else r.OK for item in ITEMS
    }
    assert len(starts) >= 2
