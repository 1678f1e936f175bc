"""Names and files that the documentation mentions exist."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from constrained import Automaton, Constraint, Generator, Vocabulary
from constrained._core import MaskStore
from constrained.decoding import Chunk, Output, Samples, Stats
from constrained.extras import MissingExtra

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "docs" / "llms.txt",
    *sorted((ROOT / "docs").glob("*.md")),
]
FOLDERS = ("constrained", "grammars", "spec", "tests", "docs", "examples")

# What the pages call a value of each class.
VARIABLES: dict[str, type] = {
    "out": Output, "outs": Samples, "stats": Stats, "chunk": Chunk, "automaton": Automaton,
    "vocabulary": Vocabulary, "constraint": Constraint, "generator": Generator, "Output": Output,
    "Samples": Samples, "Stats": Stats, "Chunk": Chunk,
}  # fmt: skip
# Attributes of these attributes are looked up in these classes.
TYPES_OF_ATTRIBUTES: dict[tuple[type, str], type] = {
    (Output, "stats"): Stats,
    (Vocabulary, "masks"): MaskStore,
}
# Pages on which a variable is a value of another library.
OTHER_VALUES = {("transformers.md", "out")}  # what transformers' `generate` returns


def attributes(cls: type) -> set[str]:
    """Names of the methods, properties and annotated fields of a class."""
    return set(dir(cls)).union(*(inspect.get_annotations(base) for base in cls.__mro__))


def unknown_attribute(path: str, variables: dict[str, type] = VARIABLES) -> str | None:
    """The part of a dotted path that its class does not have; None if all are known."""
    variable, *names = path.split(".")
    cls: type | None = variables[variable]
    for name in names:
        if name not in attributes(cls):
            return f"{cls.__name__}.{name}"
        cls = TYPES_OF_ATTRIBUTES.get((cls, name))
        if cls is None:
            break
    return None


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = dotted.split(".")
    value: Any = importlib.import_module(parts[0])
    for index, name in enumerate(parts[1:], 1):
        if isinstance(value, type):
            if name not in attributes(value):
                return False
            value = getattr(value, name, None)
            continue
        if not hasattr(value, name):
            try:
                importlib.import_module(".".join(parts[: index + 1]))
            except MissingExtra:
                return True
            except ModuleNotFoundError:
                return False
        value = getattr(value, name)
    return True


def code(page: str) -> Iterator[str]:
    """Code of a page: fenced blocks and text in backticks."""
    yield from re.findall(r"^```.*?^```", page, re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_attributes_of_results_exist(page: Path) -> None:
    variables = "|".join(VARIABLES)
    for text in code(page.read_text("utf-8")):
        for path in re.findall(rf"(?<![\w./-])(?:{variables})(?:\.[A-Za-z_]\w*)+", text):
            if (page.name, path.partition(".")[0]) not in OTHER_VALUES and not path.endswith(".md"):
                assert unknown_attribute(path) is None, f"{page.name}: {path}: no {unknown_attribute(path)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_the_packages_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    names = re.findall(r"(?<![\w./-])constrained(?:\.[A-Za-z_]\w*)+(?![\w/])", "\n".join(code(text)))
    names += re.findall(r"^::: (\S+)", text, re.MULTILINE)
    for name in names:
        if re.search(r"\.(md|py)$", name) is None:
            assert resolves(name), f"{page.name}: {name} does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page: Path) -> None:
    folders = "|".join(FOLDERS)
    for text in code(page.read_text("utf-8")):
        for path in re.findall(rf"(?<![\w./:-])(?:{folders})/[\w./*-]*\w/?", text):
            assert list(ROOT.glob(path.rstrip("/"))), f"{page.name}: {path} does not exist"


def test_every_room_of_tests_has_its_questions() -> None:
    page = (ROOT / "docs" / "tests.md").read_text("utf-8")
    for room in {file.parent for file in (ROOT / "tests").glob("*/test_*.py")}:
        assert f"`tests/{room.name}/" in page, f"docs/tests.md says nothing about tests/{room.name}"


def test_files_in_the_docstrings_of_packages_exist() -> None:
    for package in FOLDERS[:3]:
        for file in (ROOT / package).rglob("__init__.py"):
            docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
            for name in re.findall(r"^    ([\w/]+\.(?:py|lark))\b", docstring, re.MULTILINE):
                assert (file.parent / name).exists(), f"{file.relative_to(ROOT)}: {name} does not exist"


def test_unknown_names_are_noticed() -> None:
    assert unknown_attribute("out.stats.accepted") is None
    assert unknown_attribute("out.guesses") == "Output.guesses"
    assert unknown_attribute("out.stats.guesses") == "Stats.guesses"
    assert resolves("constrained.Vocabulary.from_tokenizer")
    assert resolves("constrained.grammars.ir")
    assert not resolves("constrained.Vocabulary.from_guess")
    assert not resolves("constrained.laws")
