"""Puzzles of the quality bench, who answers them, and what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from constrained import InvalidArgument, load
from constrained.bench.quality.report import sections
from constrained.bench.quality.run import QualityRow, run
from constrained.bench.quality.settings import QualitySettings
from constrained.bench.quality.tasks import TASKS, make_item, prompt_ids
from constrained.cli import main


def test_last_letters_are_those_of_the_words() -> None:
    for number in range(20):
        item = make_item("last_letters", number, 0)
        (words,) = re.findall("'(.+?)'", item.question)
        assert item.answer == "".join(word[-1] for word in words.split())
        assert item.reasoning.endswith(f"Together: '{item.answer}'.")


def test_swaps_lead_to_the_answer() -> None:
    answers = set()
    for number in range(40):
        item = make_item("shuffled_objects", number, 0)
        held = dict(re.findall(r"(\w+) has the (\w+)", item.question))
        for one, other in re.findall(r"(\w+) and (\w+) swap", item.question):
            held[one], held[other] = held[other], held[one]
        (person,) = re.findall(r"What does (\w+) have", item.question)
        options = dict(re.findall(r"\((\w)\) (\w+)", item.question))
        assert options[item.answer] == held[person]
        assert set(options.values()) == set(held.values())
        answers.add(item.answer)
    assert answers == set("ABC")


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_makes_the_puzzle_and_a_prompt_shows_others(task: str) -> None:
    item = make_item(task, 3, 1)
    assert item == make_item(task, 3, 1) != make_item(task, 3, 2)
    model = load()
    shown = model.vocabulary.decode(prompt_ids(model, item, 2)).decode()
    assert shown.count("Answer with JSON") == 3
    assert make_item(task, 1, "example").reasoning in shown
    assert item.question in shown
    assert item.reasoning not in shown


def test_every_engine_answers_and_a_run_goes_on(tmp_path: Path) -> None:
    settings = QualitySettings(
        tasks=("shuffled_objects",), engines=("constrained", "unconstrained"), n=1, shots=1, max_tokens=40
    )
    (ours, alone) = run(settings, tmp_path).rows
    assert (ours.engine, alone.engine) == ("constrained", "unconstrained")
    assert ours.answer in ("A", "B", "C"), "it is closed within the limit"
    assert ours.tokens <= 40
    with pytest.raises(InvalidArgument, match="--resume"):
        run(settings, tmp_path)
    more = QualitySettings(tasks=("shuffled_objects",), engines=("constrained",), n=2, shots=1, max_tokens=40)
    assert [(row.engine, row.id) for row in run(more, tmp_path, resume=True).rows] == [
        ("constrained", "0"),
        ("unconstrained", "0"),
        ("constrained", "1"),
    ]


def test_the_table_compares_puzzle_by_puzzle() -> None:
    rows = [
        QualityRow("last_letters", "0", "constrained", "a", "a", right=True, tokens=5),
        QualityRow("last_letters", "1", "constrained", "c", "c", tokens=5, cut=True),
        QualityRow("last_letters", "0", "unconstrained", "a", "a", right=True, tokens=5),
        QualityRow("last_letters", "1", "unconstrained", "", None, tokens=9, repeated=True),
        QualityRow("last_letters", "0", "xgrammar", "b", "b", tokens=5),
    ]
    (table,) = sections(rows)
    cells = {name: dict(zip(table.columns, line, strict=True)) for name, line in table.lines}
    assert cells["constrained"]["right"] == "1 (50.0 %, 9.5–90.5)"
    assert (cells["constrained"]["left as is"], cells["xgrammar"]["left as is"]) == ("1 of 1", "0 of 1")
    assert cells["xgrammar"]["ours more"] == "+100.0 (+100.0 to +100.0)"
    assert cells["unconstrained"]["ours more"].startswith("+0.0")
    assert [cells["unconstrained"][name] for name in ("no answer", "repeated", "tokens")] == ["1", "1", "14"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bench",
        "quality",
        "--tasks",
        "last_letters",
        "--n",
        "1",
        "--shots",
        "0",
        "--max-tokens",
        "30",
    ]
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--engines", "constrained", "-q", "-o", str(tmp_path)])
    assert not done.value.code
    assert "last_letters" in capsys.readouterr().out
    assert make_item("last_letters", 0, 0).question in (tmp_path / "answers.md").read_text()
    with pytest.raises(SystemExit) as done:
        main(["bench", "quality", "--tasks", "sums", "-o", str(tmp_path / "other")])
    assert done.value.code
    assert "'sums'" in capsys.readouterr().err
