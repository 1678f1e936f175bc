"""The judge of values: documents, scores of calls, how texts are read, runs, and the report."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import typing
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import constrained
from constrained import InvalidArgument
from constrained.bench.harness.results import ROWS, read_rows
from constrained.bench.values.items import ValueItem, documents, draw, public
from constrained.bench.values.judging import judge
from constrained.bench.values.reading import read_calls, read_choice, read_object
from constrained.bench.values.rows import ValueRow
from constrained.bench.values.run import run
from constrained.bench.values.settings import (
    DOCUMENTS,
    FORMS,
    LISTS,
    LONG_DOCUMENTS,
    ORDERS,
    STRICT,
    ValueSettings,
)
from constrained.cli import main
from constrained.cli.intervals import paired_share_interval
from constrained.extraction.examples import to_json

ITEMS = list(documents())
MONTHS = [
    "January|Januar|ledna|enero|janvier",
    "February|Februar|února|febrero|février",
    "March|März|března|marzo|mars",
    "April|dubna|abril|avril",
    "May|Mai|května|mayo|mai",
    "June|Juni|června|junio|juin",
    "July|Juli|července|julio|juillet",
    "August|srpna|agosto|août",
    "September|září|septiembre|septembre",
    "October|Oktober|října|octubre|octobre",
    "November|listopadu|noviembre|novembre",
    "December|Dezember|prosince|diciembre|décembre",
]


def spelled_date(value: str) -> str:
    """A pattern of the ways in which the documents write a date."""
    year, month, day = map(int, value.split("-"))
    name, of = f"(?:{MONTHS[month - 1]})", r"\.? (?:de )?"
    return (
        rf"\b(?:{value}|0?{day}\. ?0?{month}\. ?{year}|{month}/{day}/{year}|{day}{of}{name}{of}{year}|{name} {day}, {year}|{name} {day} {year})\b"
        rf"|{name}, {day} {name} {year}"
    )


def spelled_number(value: float) -> str:
    """A pattern of the ways in which the documents write a number; small ones may be words."""
    if value in range(1, 10):
        return ""
    whole, cents = f"{value:,.2f}".split(".")
    digits, fraction = whole.replace(",", "[ .,]?"), f"[.,]{cents.rstrip('0') or '0'}0?"
    return rf"(?<!\d)(?:{digits}(?:{fraction}){'?' if cents == '00' else ''})(?!\d)"


def stated(kind: Any, value: Any) -> Iterator[str]:
    """Patterns of what a document must state of a value: no words out of a list, and nothing that is true or false."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for name, part in value.items():
            yield from stated(hints[name], part)
    elif isinstance(value, list):
        (of,) = typing.get_args(
            next(one for one in (kind, *typing.get_args(kind)) if typing.get_origin(one) is list)
        )
        for part in value:
            yield from stated(of, part)
    elif date in (kind, *typing.get_args(kind)):
        yield spelled_date(value)
    elif str in (kind, *typing.get_args(kind)):
        yield re.escape(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield spelled_number(value)


FORMS_ITEMS = [item for item in ITEMS if item.task == FORMS]
TYPED = [item for item in ITEMS if item.task != FORMS]


@pytest.mark.parametrize("item", FORMS_ITEMS, ids=[item.id for item in FORMS_ITEMS])
def test_what_is_right_satisfies_its_schema(item: ValueItem) -> None:
    constrained.json_schema(item.constraint).parse(json.dumps(item.gold))
    jsonschema.Draft202012Validator(item.constraint).validate(item.gold)


@pytest.mark.parametrize("item", TYPED, ids=[f"{item.task}-{item.id}" for item in TYPED])
def test_what_is_right_satisfies_its_type_and_stands_in_the_document(item: ValueItem) -> None:
    value = constrained.python_type(item.constraint).parse(json.dumps(item.gold))
    assert to_json(value) == item.gold
    patterns = list(stated(item.constraint, item.gold))
    assert len(patterns) >= 4
    assert [pattern for pattern in patterns if not re.search(pattern, item.text)] == []
    words = len(item.text.split())
    shortest, longest = {DOCUMENTS: (25, 80), LONG_DOCUMENTS: (700, 1500), ORDERS: (15, 50)}[item.task]
    assert shortest <= words <= longest


def test_there_are_twelve_short_and_two_long_documents_of_each_type() -> None:
    for task, count in ((DOCUMENTS, 12), (LONG_DOCUMENTS, 2)):
        kinds = [item.constraint for item in ITEMS if item.task == task]
        assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(set(kinds), count)
        assert len(set(kinds)) == 5


def test_a_higher_limit_adds_items_and_tasks_come_in_turn() -> None:
    few, more = (draw(ITEMS, (DOCUMENTS, LONG_DOCUMENTS), limit, 3) for limit in (2, 5))
    assert [item.task for item in few] == [DOCUMENTS, LONG_DOCUMENTS] * 2
    assert more[:4] == few
    assert len(more) == 10
    assert draw(ITEMS, (DOCUMENTS,), 2, 4) != draw(ITEMS, (DOCUMENTS,), 2, 3)


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('Here it is:\n```json\n{"a": {"b": 1}}\n```\nDone.', {"a": {"b": 1}}),
        ('{"a": 1}   \n\n\n', {"a": 1}),
        ('{"a": {"b": 1}, "c": ', None),  # the inner object is not the answer
        ("{a: string}", None),
        ('{a: {b: 1}}\nOutput: {"a": 1}', {"a": 1}),
        ("no", None),
    ],
)
def test_the_object_of_a_text(text: str, value: Any) -> None:
    assert read_object(text) == value


def test_the_choice_of_a_text() -> None:
    options = ["card", "card_lost", "top up"]
    assert read_choice('"card_lost".', options) == "card_lost"
    assert read_choice("It is about a top up by card.", options) == "top up"
    assert read_choice("none", options) is None


def test_the_calls_of_a_text() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {"a": {"name": "x", "arguments": {}}}}\n</tool_call>\n{"name": "g", "argum'
    assert read_calls(text) == [{"name": "f", "arguments": {"a": {"name": "x", "arguments": {}}}}]
    listed = 'Sure: [{"name": "f", "arguments": {}}, {"name": "g", "arguments": {"b": [1]}}]'
    assert [call["name"] for call in read_calls(listed)] == ["f", "g"]


# ---------------------------------------------------------------- scores of calls

WEATHER = [
    {"weather": {"city": ["Paris", "Paris, France"], "days": [3], "unit": ["", "celsius"]}},
    {"weather": {"city": ["Oslo"], "days": [1], "unit": [""]}},
]


def verdicts(gold: Any, calls: Any) -> list[tuple[str, str]]:
    scores = judge(ValueItem("bfcl-parallel", "x", gold, ""), calls)
    return sorted((score.pointer, score.verdict) for score in scores)


def call(function: str, **arguments: Any) -> dict[str, Any]:
    return {"name": function, "arguments": arguments}


def test_calls_are_right_in_any_order_and_with_arguments_that_may_be_left_out() -> None:
    calls = [
        call("weather", city="oslo", days=1),
        call("weather", city="paris france", days=3, unit="celsius"),
    ]
    assert {verdict for _, verdict in verdicts(WEATHER, calls)} == {"right"}
    assert len(verdicts(WEATHER, calls)) == len(verdicts(WEATHER, None)) == 6  # as many, whatever is found


def test_faults_of_calls() -> None:
    calls = [call("weather", city="Rome", unit="kelvin", x=1), call("add", a=1)]
    assert verdicts(WEATHER[:1], calls) == [
        ("/arguments/a", "invented"),
        ("/arguments/city", "wrong"),
        ("/arguments/days", "missing"),
        ("/arguments/unit", "invented"),
        ("/arguments/x", "invented"),
        ("/name", "invented"),
        ("/name", "right"),
    ]


@pytest.mark.parametrize(
    ("accepted", "found", "right"),
    [
        (True, True, True),
        (True, 1, False),
        (5, 5.0, True),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ({"low": [1], "high": ["", 9]}, {"low": 1}, True),
        ({"low": [1], "high": ["", 9]}, {"low": 1, "high": 8}, False),
        ([{"field": ["age"]}], [{"field": "Age"}], True),
        ("a", None, False),
    ],
)
def test_accepted_values(accepted: Any, found: Any, right: bool) -> None:
    assert (("/arguments/v", "right") in verdicts([{"f": {"v": [accepted]}}], [call("f", v=found)])) is right


def test_an_argument_without_accepted_values_is_an_empty_array() -> None:
    gold: list[dict[str, Any]] = [{"f": {"v": []}}]
    assert verdicts(gold, [call("f", v=[])]) == [("/arguments/v", "right"), ("/name", "right")]
    assert verdicts(gold, [call("f", v=["a"])]) == [("/arguments/v", "wrong"), ("/name", "right")]
    assert verdicts(gold, None) == [("/arguments/v", "missing"), ("/name", "missing")]


def test_the_interval_of_a_difference_contains_it_and_narrows() -> None:
    few = paired_share_interval([1, 0, -1, 2, 0, 1], [4] * 6)
    many = paired_share_interval([1, 0, -1, 2, 0, 1] * 20, [4] * 120)
    assert few[0] < many[0] < 3 / 24 < many[1] < few[1]
    assert paired_share_interval([2, 2], [2, 2]) == (1.0, 1.0)


# ---------------------------------------------------------------- runs

CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Paris"]}, "wet": {"type": "boolean"}},
    "required": ["city"],
    "additionalProperties": False,
}
ROWS_OF_DATA: list[dict[str, Any]] = [
    {"id": "e-1", "task": "e2e", "text": "It rains in Oslo.", "instructions": "Read it.", "schema": CITY, "gold": {"city": "Oslo", "wet": True}},
    {"id": "b-1", "task": "banking77", "text": "My card is lost.", "instructions": "Which?", "options": ["card_lost", "top_up?"], "gold": "card_lost"},
    {
        "id": "c-1",
        "task": "bfcl-parallel",
        "messages": [{"role": "user", "content": "Is it wet in Oslo and in Paris?"}],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": CITY}}],
        "gold": [{"weather": {"city": ["Oslo"], "wet": ["", True]}}, {"weather": {"city": ["Paris"], "wet": [""]}}],
    },
]  # fmt: skip
PUBLIC_TASKS = "e2e,banking77,bfcl-parallel"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS_OF_DATA), encoding="utf-8")
    return path


def test_every_engine_answers_the_same_prompts(data: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    command = ["bench", "values", "--data", str(data), "--max-tokens", "60", "--out", str(out), "--quiet"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--tasks", PUBLIC_TASKS, "--engines", "constrained,unconstrained"])
    assert ended.value.code == 0
    assert "all tasks" in capsys.readouterr().out
    rows = {(row.id, row.engine): row for row in read_rows(out, ValueRow)}
    assert len(rows) == 6
    for row in ROWS_OF_DATA:
        ours, free = rows[row["id"], "constrained"], rows[row["id"], "unconstrained"]
        assert (ours.refused, ours.error, free.refused, free.error) == ("", "", "", "")
        if row["id"] == "c-1":  # the message is read once more
            assert ours.prompt_tokens > free.prompt_tokens > 0
        else:
            assert ours.prompt_tokens == free.prompt_tokens > 0
        assert ours.asked == free.asked > 0
        assert ours.passes > 0
        assert free.passes > 0
    assert rows["b-1", "constrained"].value in ROWS_OF_DATA[1]["options"]
    assert all(one["name"] == "weather" for one in rows["c-1", "constrained"].value)
    page, answers = ((out / name).read_text() for name in ("values.md", "answers.md"))
    assert "## E2e" in page
    assert "It rains in Oslo." in answers


def test_a_run_goes_on_where_it_was_interrupted(data: Path, tmp_path: Path) -> None:
    settings = ValueSettings(data, tasks=("e2e", "banking77"), engines=("constrained",), max_tokens=40)
    run(settings, tmp_path)
    lines = (tmp_path / ROWS).read_text().splitlines(keepends=True)
    (tmp_path / ROWS).write_text(lines[0] + lines[1][:30])
    assert [row.id for row in run(settings, tmp_path, resume=True).rows] == ["e-1", "b-1"]
    with pytest.raises(InvalidArgument, match="other settings"):
        run(dataclasses.replace(settings, max_tokens=41), tmp_path, resume=True)


def test_answers_at_a_temperature_depend_on_the_seed_alone(data: Path, tmp_path: Path) -> None:
    def texts(seed: int, folder: str) -> list[str]:
        settings = ValueSettings(
            data, tasks=("e2e",), engines=("constrained", "unconstrained"), max_tokens=40, temperature=1.0, seed=seed
        )  # fmt: skip
        return [row.text for row in run(settings, tmp_path / folder).rows]

    assert texts(0, "a") == texts(0, "b")
    assert texts(0, "a1") != texts(1, "c")


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance", "outlines"])
def test_an_engine_writes_what_the_prompt_asks_for(engine: str, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("outlines_core" if engine == "outlines" else engine)
    settings = ValueSettings(
        data, tasks=tuple(PUBLIC_TASKS.split(",")), engines=(engine,), max_tokens=60, temperature=1.0
    )
    rows = {row.id: row for row in run(settings, tmp_path).rows}
    assert [row.refused + row.error for row in rows.values()] == [""] * 3
    assert rows["b-1"].value in ROWS_OF_DATA[1]["options"]
    assert rows["c-1"].text.startswith('<tool_call>\n{"name": "weather", "arguments": ')


def test_lists_of_records_are_made_of_three_texts(tmp_path: Path) -> None:
    """Of one schema, and of different names where there are names."""
    path = tmp_path / "rows.jsonl"
    named = {**CITY, "properties": {**CITY["properties"], "name": {"type": "string"}}}
    rows = [
        {"id": f"e-{i}", "task": task, "text": f"{name}.", "instructions": "Read.", "schema": schema, "gold": {"name": name}}
        for i, (task, name, schema) in enumerate(
            [("e2e", "A", named), ("snips", "A", CITY), ("e2e", "A", named), ("e2e", "B", named), ("e2e", "D", CITY), ("e2e", "C", named)]
        )
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (made,) = (item for item in public(path) if item.task in LISTS)
    assert (made.task, made.id, made.text) == ("e2e-lists", "e-0", "A. B. C.")
    assert made.gold == {"records": [{"name": "A"}, {"name": "B"}, {"name": "C"}]}
    assert made.constraint["properties"]["records"]["items"] == named


def test_strict_tasks_require_members_that_may_be_null(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"id": "e-0", "task": "e2e", "text": "A.", "instructions": "Read.", "schema": CITY, "gold": {}}
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (made,) = (item for item in public(path) if item.task in STRICT)
    assert (made.task, made.text) == ("e2e-strict", "A.")
    assert made.constraint["required"] == list(CITY["properties"])
    city, wet = made.constraint["properties"]["city"], made.constraint["properties"]["wet"]
    assert (city, wet) == (CITY["properties"]["city"], {"anyOf": [{"type": "boolean"}, {"type": "null"}]})
    assert judge(made, {"wet": None}) == []
    assert [one.verdict for one in judge(made, {"wet": True})] == ["invented"]


def test_public_tasks_need_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSTRAINED_DATA", raising=False)
    with pytest.raises(InvalidArgument, match="--data"):
        run(ValueSettings(tasks=("e2e",)), tmp_path)


def test_an_engine_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    command = ["bench", "values", "--engines", "vllm", "--tasks", DOCUMENTS, "--limit", "1", "--quiet"]
    with pytest.raises(SystemExit) as done:
        main([*command, "--out", str(tmp_path / "out")])
    assert done.value.code
    said = capsys.readouterr()
    assert "vllm is not installed" in said.out + said.err
    assert "pip install 'constrained-generation[vllm]'" in said.out + said.err
