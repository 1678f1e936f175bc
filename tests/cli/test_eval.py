"""`constrained eval`: what extraction gets right on documents whose right values are known.

A scripted model says the city that stands after "From" in its prompt, unless a test says otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import Cli, Ended, cli
from tests.cli.test_extract_files import say_city
from tests.support.paths import ROOT

__all__ = ["cli"]
SCHEMA = """{"type": "object", "properties": {"city": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["city"], "additionalProperties": false}"""
Run = Callable[..., Ended]


@pytest.fixture
def run(cli: Cli) -> Run:
    """The command with files; the schema and the script are given."""
    return lambda *names, **more: cli("eval", *names, "-s", SCHEMA, **{"script": say_city, **more})


def lines(name: str, *rows: Any) -> str:
    Path(name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return name


def labelled(*golds: Any, name: str = "docs.jsonl") -> str:
    """Documents of Rome, Ålborg and Bonn, each with its gold value."""
    cities = ("Rome", "Ålborg", "Bonn")
    rows = [
        {"id": city, "text": f"From {city}", "gold": gold} for city, gold in zip(cities, golds, strict=False)
    ]
    return lines(name, *rows)


def table(out: str) -> dict[str, list[str]]:
    """The cells of each line that has numbers of fields, by field."""
    found = [re.split(r"  +", line) for line in out.splitlines() if re.match(r"\S.*  +\d", line)]
    return {name: cells for name, *cells in found}


def test_the_fields_of_all_documents_are_counted_and_the_worst_are_shown(run: Run) -> None:
    labelled({"city": "Rome", "year": 5}, {"city": "Ålborg"}, {"city": "Köln", "year": 7})
    ended = run("docs.jsonl", "--worst", "1")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith('3 documents, gold values by id\nsettings: model "bundled", ')
    assert table(ended.out) == {
        "/city": ["3", "2 (66.7 %, 20.8–93.9)", "1", "0", "0"],
        "/year": ["2", "0 (0.0 %, 0.0–65.8)", "0", "2", "0"],
        "all fields": ["5", "2 (40.0 %, 11.8–76.9)", "1", "2", "0"],
        "whole values": ["3", "1 (33.3 %, 6.1–79.2)"],
    }
    assert ended.out.endswith(
        "documents with the most faults\n"
        "Bonn: 0 of 2 right\n"
        '  /city  wrong: expected "Köln", found "Bonn"\n'
        "  /year  missing: expected 7\n"
    )


def test_a_document_without_a_value_counts_as_missing_and_says_why(run: Run) -> None:
    labelled({"city": "Rome"}, {"city": "Ålborg"})
    ended = run("docs.jsonl", "--max-tokens", "14")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("2 documents, gold values by id; 2 without a value: 2 Truncated\n")
    assert table(ended.out)["/city"] == ["2", "0 (0.0 %, 0.0–65.8)", "0", "2", "0"]
    assert (
        "Rome: 0 of 1 right\n  Truncated: the token limit of 14 cut the completion: the string /city goes on\n"
        in ended.out
    )


@pytest.mark.parametrize("out", ["r.jsonl", "r.parquet"])
def test_results_are_written_with_their_scores_and_can_be_scored_again_without_a_model(
    run: Run, out: str
) -> None:
    if out == "r.parquet":
        pytest.importorskip("pyarrow")
    labelled({"city": "Rome"}, {"city": "Bergen"})
    first = run("docs.jsonl", "--out", out)
    assert (first.code, first.err.splitlines()[0][:37]) == (0, "2 of 2 documents have a result in " + out[:3])
    if out == "r.jsonl":
        rows = [json.loads(line) for line in Path(out).read_text("utf-8").splitlines()]
        assert {row["id"]: row["scores"] for row in rows}["Ålborg"] == [
            {"pointer": "/city", "expected": "Bergen", "found": "Ålborg", "verdict": "wrong"}
        ]
    again = run("docs.jsonl", "--results", out, script="the model was asked")
    assert again == Ended(0, first.out, "")
    labelled({"city": "Rome"}, {"city": "Ålborg"}, {"city": "Bonn"})
    more = run("docs.jsonl", "--results", out).out
    assert "\n1 documents have no result: left out\n" in more
    assert table(more)["whole values"] == ["2", "2 (100.0 %, 34.2–100.0)"]
    resumed = run("docs.jsonl", "--out", out, "--resume")
    assert table(resumed.out)["whole values"] == ["3", "3 (100.0 %, 43.9–100.0)"]


def test_results_are_compared_with_those_of_an_earlier_run(run: Run) -> None:
    labelled({"city": "Rome", "year": 5}, {"city": "Ålborg"}, {"city": "Bonn"})
    for name, script, more in (
        ("a.jsonl", say_city, ()),
        ("b.jsonl", '{"city": "Rome", "year": 5}', ("--context", "Five")),
    ):
        assert run("docs.jsonl", "--out", name, "--no-decisions", *more, script=script).code == 0
    ended = run("docs.jsonl", "--results", "b.jsonl", "--against", "a.jsonl")
    assert 'against a.jsonl: 3 documents that both have\n  context: "Five", before -\n' in ended.out
    compared = table(ended.out.partition("against")[2])
    assert compared["/city"][:4] == ["0", "2", "1", "p = 0.5"]
    assert compared["/city"][4].startswith("-66.7 (-100.0 to ")
    assert compared["/year"][:4] == ["1", "2", "0", "p = 1"]  # two years are invented
    assert compared["/year"][4].startswith("+100.0 (")
    assert compared["whole values"][:4] == ["1", "2", "0", "p = 1"]
    same = run("docs.jsonl", "--results", "a.jsonl", "--against", "a.jsonl").out.partition("against")[2]
    assert table(same)["all fields"] == ["0", "0", "3", "p = 1", "+0.0"]


def test_gold_values_of_another_file_belong_to_ids_or_where_there_are_none_to_the_order(run: Run) -> None:
    labelled(None, None)
    by_id = lines("g.jsonl", *({"id": city, "right": {"city": city}} for city in ("Ålborg", "Rome")))
    ended = run("docs.jsonl", by_id, "--gold-column", "right")
    assert ended.out.startswith("2 documents, gold values by id\n")
    assert table(ended.out)["/city"][1] == "2 (100.0 %, 34.2–100.0)"
    Path("g.csv").write_text('gold\n"{""city"": ""Rome""}"\n"{""city"": ""Ålborg""}"\n', "utf-8")
    ended = run("docs.jsonl", "g.csv")
    assert ended.out.startswith("2 documents, gold values by order\n")
    assert table(ended.out)["/city"][1] == "2 (100.0 %, 34.2–100.0)"


def test_gold_values_of_parquet_are_structures_or_json_text(run: Run) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for gold in ([{"city": "Rome"}], ['{"city": "Rome"}']):
        columns = {"id": [1], "text": ["From Rome"], "gold": gold}
        parquet.write_table(pyarrow.table(columns), "t.parquet")
        assert table(run("t.parquet").out)["/city"][1] == "1 (100.0 %, 20.7–100.0)"


def test_values_that_are_no_json_are_their_text(cli: Cli) -> None:
    Path("t.csv").write_text("text,gold\nLovely,true\nAwful,false\n")
    ended = cli("eval", "t.csv", "--choice", "true,false", script="true")
    assert table(ended.out)["(value)"] == ["2", "1 (50.0 %, 9.5–90.5)", "1", "0", "0"]
    Path("t.csv").write_text("text,gold\nLovely,tru\n")
    ended = cli("eval", "t.csv", "--choice", "true,false", script="true")
    assert (ended.code, "t.csv, line 2: the gold value does not fit 2 choices: true, false" in ended.err) == (
        2,
        True,
    )


ROME = {"id": "Rome", "gold": {"city": "Rome"}}


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ([], "g.jsonl holds no gold values"),
        ([ROME], "docs.jsonl, line 2: the document 'Ålborg' has no gold value in g.jsonl"),
        ([ROME, ROME], "the id 'Rome' is there twice: g.jsonl, line 1 and g.jsonl, line 2"),
        (
            [ROME, {"id": "Ålborg", "gold": {"city": "x"}}, {"id": "Oslo", "gold": {"city": "x"}}],
            "g.jsonl, line 3: the gold value has the id 'Oslo', and no document has",
        ),
        ([{"gold": {"city": "Rome"}}], "docs.jsonl, line 2 has no partner"),
        ([{"gold": {"city": "Rome"}}] * 3, "g.jsonl, line 3 has no partner"),
        (
            [ROME, {"id": "Ålborg", "gold": {"city": 5}}],
            "g.jsonl, line 2: the gold value does not fit JSON of",
        ),
        ([{"id": "Rome", "gold": {"city": "x", "year": "5"}}], "#/year     '5' is not of type 'integer'"),
        (
            [{"id": "Rome", "value": 1}],
            "name the column of the gold values: --gold-column; there is id, value",
        ),
    ],
)
def test_a_gold_value_that_does_not_fit_is_an_error_with_its_row(
    run: Run, gold: list[Any], message: str
) -> None:
    labelled(None, None)
    ended = run("docs.jsonl", lines("g.jsonl", *gold), "--out", "r.jsonl", script="the model was asked")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert not Path("r.jsonl").exists()


def test_what_only_the_code_of_a_type_refuses_is_refused_of_a_gold_value_too(cli: Cli) -> None:
    Path("models.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Visit:\n    city: str\n\n"
        "    def __post_init__(self) -> None:\n"
        "        if self.city == 'Atlantis':\n            raise ValueError('there is no such city')\n"
    )
    labelled({"city": "Rome"}, {"city": "Atlantis"})
    ended = cli("eval", "docs.jsonl", "-t", "models.py:Visit")
    assert ended.code == 2
    assert "docs.jsonl, line 2: the gold value does not fit JSON of the type Visit" in ended.err
    assert "there is no such city" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("docs.jsonl", "--text-column", "body"), "there is no 'body'"),
        (("docs.jsonl", "--id-column", "key"), "there is no 'key'"),
        (("-",), "eval reads files twice"),
        (("docs.jsonl", "--out", "-"), "prints its tables on standard output"),
        (("docs.jsonl", "--resume"), "--resume needs --out"),
        (("docs.jsonl", "--results", "r.jsonl", "--model", "m"), "--model does not go with --results"),
        (("docs.jsonl", "--results", "docs.jsonl"), "docs.jsonl, line 1: there is no 'value'"),
        (("docs.jsonl", "--results", "other.jsonl"), "no result of a document with a gold value"),
        (("docs.jsonl", "--against", "other.jsonl"), "no result of a document with a gold value"),
        (("docs.jsonl", "--against", "no.jsonl"), "no.jsonl cannot be read"),
    ],
)
def test_wrong_usage_is_an_error_before_a_model_is_asked(
    run: Run, arguments: tuple[str, ...], message: str
) -> None:
    labelled({"city": "Rome"})
    lines("other.jsonl", {"id": "Oslo", "value": {"city": "Oslo"}, "error": None})
    ended = run(*arguments, script="the model was asked")
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


@pytest.mark.ci
def test_the_bundled_model_reads_the_orders_of_the_example(cli: Cli) -> None:
    example = ROOT / "examples" / "extract"
    ended = cli("eval", str(example / "orders.jsonl"), "-t", f"{example / 'score.py'}:Order", script=None)
    assert (ended.code, ended.err) == (0, "")
    assert [int(table(ended.out)[field][0]) for field in ("/order_id", "/total", "/city")] == [5, 5, 4]
    assert int(table(ended.out)["all fields"][1].split()[0]) >= 3
