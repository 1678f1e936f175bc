"""The judge of decisions: public rows as questions, the five ways, the metrics, and a run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from constrained import InvalidArgument
from constrained.bench.decisions.items import label_sets, questions
from constrained.bench.decisions.rows import DecisionRow, calibration_error, log_loss
from constrained.bench.decisions.settings import FIELDS, LETTERS, MASKS, NONE, ONE_BY_ONE, PUBLIC, WAYS
from constrained.bench.decisions.ways import FieldAnswer, prepare
from constrained.bench.harness.results import read_rows
from constrained.bench.values.items import ValueItem
from constrained.cli import main
from constrained.constraint import choice
from constrained.testing.models import ScriptedModel
from tests.support.finite import byte_vocabulary
from tests.support.tiny_models import llama

PLACE = {
    "title": "Place",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "price": {"enum": ["£20", "cheap"]},
        "open": {"type": "boolean"},
    },
    "required": ["name"],
}
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {}}}
OTHER = {"type": "function", "function": {"name": "stop", "description": "Stops.", "parameters": {}}}
DATA: list[dict[str, Any]] = [
    {"id": "b-1", "task": "banking77", "text": "It is lost.", "instructions": "Which?", "options": ["card_lost", "top_up?"], "gold": "card_lost"},
    {"id": "s-1", "task": "snips", "text": "Rain?", "intent": "GetWeather", "intents": ["GetWeather", "PlayMusic"]},
    {"id": "t-1", "task": "bfcl-multiple", "messages": [{"role": "user", "content": "1 + 1"}], "tools": [TOOL, OTHER], "gold": [{"add": {}}]},
    {"id": "t-2", "task": "bfcl-multiple", "messages": [{"role": "user", "content": "1 + 1"}], "tools": [TOOL], "gold": [{"add": {}}]},
    {"id": "e-1", "task": "e2e", "text": "A cheap place.", "instructions": "Read it.", "schema": PLACE, "gold": {"name": "?", "price": "cheap"}},
    {"id": "p-1", "task": "bfcl-parallel"},
]  # fmt: skip
LOST = ValueItem("banking77", "x", "lost", "Where is it?", choice(["card", "lost", "low"]), "Which?")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in DATA), encoding="utf-8")
    return path


def scripted() -> ScriptedModel:
    """It answers with a letter where it is asked for one, and otherwise to texts that say nothing."""
    return ScriptedModel(byte_vocabulary(), {"the letter of": "B", LOST.text: "lost", "": "low"})


def test_random_label_sets_are_of_all_sizes_and_the_same_every_time() -> None:
    sets = [item.constraint.local_schema["enum"] for item in label_sets()]
    assert len(sets) == 200
    assert min(map(len, sets)) == 2
    assert max(map(len, sets)) > 200
    assert sets == [item.constraint.local_schema["enum"] for item in label_sets()]


def test_rows_that_ask_one_of_several_are_questions(data: Path) -> None:
    found = {item.id: item for item in questions(data)}
    assert [item.task for item in found.values()] == list(PUBLIC)
    assert found["t-1"].gold == "add"
    assert "stop: Stops." in str(found["t-1"].instructions)
    assert list(found["e-1"].constraint["properties"]) == ["price", "open"]
    assert found["e-1"].gold == {"price": "cheap"}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_takes_what_the_model_says(way: str) -> None:
    (answer,) = prepare(way, scripted(), LOST)()
    assert (answer.right, answer.picked) == (1, 1)
    assert len(answer.logprobs) == (0 if way == MASKS else 3)


@pytest.mark.parametrize("way", WAYS)
def test_a_member_that_is_left_out_is_an_answer_and_texts_of_one_value_are_one_option(
    way: str, data: Path
) -> None:
    item = next(item for item in questions(data) if item.task == FIELDS)
    price, is_open = prepare(way, llama(), item)()
    assert (price.pointer, is_open.pointer) == ("/price", "/open")
    assert is_open.right == 2  # false, true, and that it is left out
    if way != MASKS:
        assert [len(price.logprobs), len(is_open.logprobs)] == [3, 3]
        assert [math.fsum(map(math.exp, one.logprobs)) for one in (price, is_open)] == pytest.approx([1, 1])


def test_options_one_by_one_have_the_law_of_their_tree(data: Path) -> None:
    for item in questions(data):
        tree, alone = (prepare(way, llama(), item)() for way in (NONE, ONE_BY_ONE))
        for one, other in zip(tree, alone, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_letters_are_single_tokens() -> None:
    many = ValueItem("banking77", "x", "9", "t", choice([str(i) for i in range(30)]), "Which?")
    with pytest.raises(InvalidArgument, match="26 letters that are one token, for 30 options"):
        prepare(LETTERS, scripted(), many)


def test_log_loss_and_calibration_error() -> None:
    sure = FieldAnswer("", 0, 0, (math.log(0.95), math.log(0.05)))
    wrong = FieldAnswer("", 1, 0, (math.log(0.65), math.log(0.35)))
    assert log_loss([sure, wrong]) == pytest.approx(-(math.log(0.95) + math.log(0.35)) / 2)
    assert calibration_error([sure, wrong]) == pytest.approx((0.05 + 0.65) / 2)
    assert calibration_error([FieldAnswer("", 0, 0)]) is None


def test_a_run_has_a_row_for_each_way_and_goes_on(data: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    command = ["bench", "decisions", "--data", str(data), "--out", str(out), "--quiet"]
    for more in (["--ways", "decide,letters"], ["--resume"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, *more])
        assert ended.value.code == 0
    assert "e2e-closed: one-by-one differs from decide-none by at most" in capsys.readouterr().out
    rows = list(read_rows(out, DecisionRow))
    assert len({(row.task, row.way) for row in rows}) == len(rows) == len(PUBLIC) * len(WAYS)
    assert [row.error for row in rows if row.error] == []
    passes = {row.way: row.passes for row in rows if row.task == FIELDS}
    assert (passes["decide"], passes[NONE], passes[LETTERS]) == (4, 1, 2)
    assert "## E2e-closed" in (out / "decisions.md").read_text()
