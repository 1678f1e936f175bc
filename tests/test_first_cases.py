"""The list of what `make test` and `make test-all` run of the tests that take long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tools import first_cases
from tests.tools.first_cases import FIRST_CASES, ROOT, mark_cases


class Case:
    """A collected case, as far as it is looked at, and the marks that it gets."""

    def __init__(self, node: str) -> None:
        self.nodeid = node
        self.marks: list[str] = []

    def get_closest_marker(self, mark: str) -> str | None:
        return mark if mark in self.nodeid else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


def test_every_test_of_the_list_exists() -> None:
    for name in json.loads(FIRST_CASES.read_text()):
        file, *_, test = name.split("::")
        inherited = file.endswith("test_langchain_standard.py")  # from langchain-tests
        assert (ROOT / file).is_file(), name
        assert inherited or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_cases_beyond_the_shares_are_marked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "shares.json"
    listed.write_text('{"a.py::test": [1, 2]}')
    monkeypatch.setattr(first_cases, "FIRST_CASES", listed)
    names = ("a.py::test[0]", "a.py::test[1]", "a.py::test[2]", "a.py::test[slow]", "a.py::other")
    cases = [Case(name) for name in names]
    mark_cases(cases)  # type: ignore[arg-type]
    assert [case.marks for case in cases] == [[], ["ci"], ["slow"], [], []]


def test_cases_that_are_slow_together_take_turns(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "shares.json"
    listed.write_text('{"a.py::test": [0, 1]}')
    monkeypatch.setattr(first_cases, "FIRST_CASES", listed)
    turns = []
    for turn in range(1_000, 1_000 + first_cases.TURNS):
        cases = [Case(f"a.py::test[{number}]") for number in range(1 + 2 * first_cases.TURNS)]
        mark_cases(cases, turn)  # type: ignore[arg-type]
        turns.append([number for number, case in enumerate(cases) if case.marks == ["ci"] and number])
    assert [len(turn) for turn in turns] == [2] * first_cases.TURNS
    assert sorted(number for turn in turns for number in turn) == list(range(1, 1 + 2 * first_cases.TURNS))


def test_shares_are_the_first_cases_that_fit() -> None:
    times = {"short": [0.1], "long": [0.1, 0.1, 5.0], "one": [9.0]}
    assert first_cases.first_cases(times) == {"long": (1, 2), "one": (0, 1)}
