"""The list of what `make test` and `make test-all` run of the tests that take long."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools import first_cases
from tests.tools.first_cases import FIRST_CASES, ROOT, mark_cases


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
    marks: list[list[str]] = [[] for _ in range(5)]
    names = ("a.py::test[0]", "a.py::test[1]", "a.py::test[2]", "a.py::test[slow]", "a.py::other")
    mark_cases(
        [
            SimpleNamespace(  # type: ignore[misc]
                nodeid=name,
                get_closest_marker=lambda mark, name=name: "slow" if "slow" in name else None,
                add_marker=lambda mark, own=own: own.append(mark.name),
            )
            for name, own in zip(names, marks, strict=True)
        ]
    )
    assert marks == [[], ["ci"], ["slow"], [], []]


def test_shares_are_the_first_cases_that_fit() -> None:
    times = {"short": [0.1], "long": [0.1, 0.1, 5.0], "one": [9.0]}
    assert first_cases.first_cases(times) == {"long": (1, 2), "one": (0, 1)}
