"""The tables of docs/comparison.md are what the installed engines do."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.tools import comparison

TABLES = {
    "schemas": (comparison.BEGIN, comparison.END, comparison.column),
    "habits": (*comparison.ENDINGS, comparison.endings),
}


@pytest.mark.parametrize("about", TABLES)
@pytest.mark.parametrize("name", comparison.ENGINES)
def test_a_column_of_a_table_is_what_the_engine_does(name: str, about: str) -> None:
    module = comparison.ENGINES[name]
    if name != "constrained":
        pytest.importorskip(module)
    begin, end, column = TABLES[about]
    columns = {
        head.partition(" ")[0]: (head, cells)
        for head, cells in comparison.written(comparison.PAGE.read_text("utf-8"), begin, end)
    }
    head, cells = columns[name]
    if name != "constrained" and head.partition(" ")[2] != version(module.replace("_", "-")):
        pytest.skip(f"{module} has another version than the page")
    assert column(name)[1] == cells


def test_this_library_is_wrong_about_one_case_and_says_so() -> None:
    columns = dict(comparison.written(comparison.PAGE.read_text("utf-8")))
    (own,) = [cells for head, cells in columns.items() if head.startswith("constrained ")]
    wrong = {
        case.about: cell for case, cell in zip(comparison.CASES, own, strict=True) if cell != comparison.RIGHT
    }
    assert wrong == {"members in another order": comparison.STRICT}
