"""`constrained decide`: a line with the value, the probabilities and their mass; of a text, and of each document of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from constrained import choice, decide
from constrained.cli import main
from constrained.cli.exit_status import FAILED_DOCUMENTS
from constrained.testing import ScriptedModel
from tests.tools.cli_driver import BYTES, replace_models


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Runs a command in an empty folder with a model that says "good": its code, its lines, its errors."""
    monkeypatch.chdir(tmp_path)
    replace_models("good", put=monkeypatch.setattr)

    def call(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        with pytest.raises(SystemExit) as ended:
            main(["decide", *arguments])
        said = capsys.readouterr()
        return int(ended.value.code or 0), [json.loads(line) for line in said.out.splitlines()], said.err

    return call


RECORD = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}},
        "required": ["a", "b"],
    }
)


def test_a_text_gives_a_line_as_decide_does(run: Any) -> None:
    options = ("--choice", "good", "--choice", "bad", "--prior", "none", "--instructions", "Is it?")
    code, (line,), _ = run("It is.", *options)
    model = ScriptedModel(BYTES, "good")
    found = decide(model, "It is.", choice(["good", "bad"]), prior="none", instructions="Is it?")
    assert code == 0
    assert line == {
        "value": "good",
        "probabilities": pytest.approx(found.probabilities),
        "mass": pytest.approx(found.decision.mass),
    }


def test_members_are_listed_by_pointer_and_a_joint_decision_is_one(run: Any) -> None:
    _, (line,), _ = run("It is.", "--schema", RECORD)
    assert set(line["probabilities"]) == set(line["mass"]) == {"/a", "/b"}
    assert sum(line["probabilities"]["/b"].values()) == pytest.approx(1)
    _, (line,), _ = run("It is.", "--schema", RECORD, "--joint", "--prior", "none")
    assert len(line["probabilities"]) == 4
    assert 0 <= line["mass"] <= 1


def test_files_give_a_line_a_document_and_an_error_is_one_of_them(run: Any, tmp_path: Path) -> None:
    documents = [{"id": "a", "text": "one"}, {"id": "b", "text": " "}, {"id": "c", "text": "three"}]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    arguments = ("docs.jsonl", "--choice", "good,bad", "--prior", "none", "--out")
    code, lines, _ = run(*arguments, "-")
    assert code == FAILED_DOCUMENTS
    assert [(line["id"], line["value"]) for line in lines] == [("a", "good"), ("b", None), ("c", "good")]
    assert lines[1]["error_type"] == "PromptError"
    assert lines[0]["probabilities"]["good"] > lines[0]["probabilities"]["bad"]
    run(*arguments, "out.jsonl")
    whole = (tmp_path / "out.jsonl").read_text()
    (tmp_path / "out.jsonl").write_text(whole.splitlines(keepends=True)[0])
    run(*arguments, "out.jsonl", "--resume")
    assert (tmp_path / "out.jsonl").read_text() == whole
    code, _, said = run(*arguments, "out.jsonl", "--resume", "--joint")
    assert (code, "joint" in said) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("It is.", "--regex", "[a-z]+"), 1, "too many values"),
        (("It is.", "--choice", "a,b", "--resume"), 2, "--resume needs --out"),
        (("--choice", "a,b", "--out", "-"), 2, "no files were given"),
    ],
)
def test_what_cannot_be_decided_is_an_error(
    run: Any, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ended, lines, error = run(*arguments)
    assert (ended, lines) == (code, [])
    assert said in error
