"""The library's grammars say what their languages' own parsers say, where those are at hand."""

from __future__ import annotations

import ast
import datetime
import json
import random
import sqlite3
import xml.etree.ElementTree
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from constrained.automaton import DEAD, TokenAutomaton
from constrained.automaton.bitmask import unpack_ids
from constrained.grammars import notation
from constrained.grammars.errors import InvalidConstraint
from constrained.grammars.notation import library
from constrained.vocabulary import Vocabulary
from tests.support import paths
from tests.support.judge import ReferenceRecognizer

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = paths.CASES / "notation" / "library"
BYTES = Vocabulary.from_bytes([bytes((byte,)) for byte in range(256)] + [b""], [256])


@cache
def automaton(name: str) -> TokenAutomaton:
    return TokenAutomaton(library.load(name), BYTES)


def accepts(name: str, text: str | bytes) -> bool:
    machine = automaton(name)
    at = machine.start
    for byte in text.encode() if isinstance(text, str) else text:
        at = machine.next(at, byte)
    return at != DEAD and machine.accepts(at)


def sample(name: str, rng: random.Random, length: int) -> str:
    """A random text: any allowed character of ASCII, then the shortest way to an end."""
    machine = automaton(name)
    row = machine.new_mask()
    at, out = machine.start, bytearray()
    while True:
        steps = machine.shortest_completion(at)
        machine.fill_mask(at, row)
        options = [byte for byte in unpack_ids(row).tolist() if byte < 0x80]
        if steps == 0 and (len(out) >= length or not options or rng.random() < 0.1):
            return out.decode()
        if len(out) >= length:
            options = [byte for byte in unpack_ids(row).tolist() if byte < 256]
            options = [
                byte for byte in options if machine.shortest_completion(machine.next(at, byte)) < steps
            ]
        out.append(rng.choice(options))
        at = machine.next(at, out[-1])


# ---------------------------------------------------------------- what is accepted and rejected


@pytest.mark.parametrize("name", library.NAMES)
def test_examples(name: str) -> None:
    cases: dict[str, list[str]] = tomllib.loads((CASES / f"{name}.toml").read_text(encoding="utf-8"))
    judge = ReferenceRecognizer(notation.parse_rules(library.text(name), library.notation(name)))
    for wanted, texts in (True, cases["accepted"]), (False, cases["rejected"]):
        assert len(texts) >= 6
        for text in texts:
            assert accepts(name, text) == wanted, text
            assert judge.accepts(text.encode()) == wanted, text


@pytest.mark.parametrize("name", library.NAMES)
def test_the_judge_accepts_what_the_automaton_makes(name: str) -> None:
    judge = ReferenceRecognizer(notation.parse_rules(library.text(name), library.notation(name)))
    rng = random.Random(name)
    for _ in range(3):
        text = sample(name, rng, 25).encode()
        assert judge.accepts(text), text
        changed = bytearray(text)
        changed.insert(rng.randrange(len(text) + 1), rng.choice(b" x0('<.,;"))
        assert accepts(name, bytes(changed)) == judge.accepts(bytes(changed)), changed


def test_every_file_is_listed() -> None:
    folder = Path(library.__file__).parent
    assert {path.stem for path in folder.glob("*.*bnf")} == set(library.NAMES)
    with pytest.raises(InvalidConstraint, match="sql"):
        library.load("cobol")


# ---------------------------------------------------------------- against the languages' own parsers


def parses_json(text: str) -> bool:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


def mutated(text: str, rng: random.Random, letters: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", rng.choice(letters)]) + text[at + rng.randrange(2) :]


def test_json_is_what_json_loads_reads() -> None:
    rng = random.Random(1)
    for _ in range(60):
        text = sample("json", rng, 20)
        assert parses_json(text), text
        for _ in range(5):
            changed = mutated(text, rng, '[]{},:"\\ue01.- \n')
            assert accepts("json", changed) == parses_json(changed), changed


def calculates(text: str) -> bool:
    """Whether Python reads it as arithmetic; its calls, tuples, and operators of two characters are not ours."""
    if "**" in text or "//" in text:
        return False
    try:
        tree = ast.parse(text.replace("^", "**").strip(" "), mode="eval")
    except SyntaxError:
        return False
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
    return all(isinstance(node, allowed) for node in ast.walk(tree))


def test_arithmetic_is_what_python_calculates() -> None:
    rng = random.Random(2)
    for _ in range(200):
        text = sample("arithmetic", rng, 12).replace(".", "")
        if calculates(text) or " " not in text:
            assert accepts("arithmetic", text) == calculates(text), text
        text = "".join(rng.choice("12+-*/^()") for _ in range(rng.randrange(1, 8)))
        assert accepts("arithmetic", text) == calculates(text), text


def test_dates_are_those_that_there_are() -> None:
    rng = random.Random(3)
    for _ in range(1500):
        year = rng.choice([1, 4, 100, 400, 1900, 2000, 2023, 2024, rng.randrange(1, 10_000)])
        month, day = rng.randrange(0, 14), rng.choice([0, 1, 28, 29, 30, 31, 32])
        try:
            there = bool(datetime.date(year, month, day))
        except ValueError:
            there = False
        assert accepts("iso8601", f"{year:04}-{month:02}-{day:02}") == there, (year, month, day)
        number = rng.choice([0, 1, 59, 60, 365, 366, 367])
        last = datetime.date(year, 12, 31).timetuple().tm_yday
        assert accepts("iso8601", f"{year:04}-{number:03}") == (1 <= number <= last), (year, number)


def parses_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def parses_sql(text: str) -> bool:
    try:
        sqlite3.connect(":memory:").execute("EXPLAIN " + text)
    except sqlite3.Error as error:
        reason = str(error)
        return not any(sign in reason for sign in ("syntax error", "incomplete input", "unrecognized token"))
    return True


@pytest.mark.parametrize(
    ("name", "parses", "length", "letters"),
    [
        ("python", parses_python, 30, "ax1.,:()[]{}*= \n'"),
        pytest.param(
            "sql", parses_sql, 50, "ax1.,()*= '-",
            marks=pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 39), reason="this SQLite knows no RIGHT JOIN"),
        ),
    ],
)  # fmt: skip
def test_texts_are_read_by_the_parser_of_their_language(
    name: str, parses: Callable[[str], bool], length: int, letters: str
) -> None:
    rng = random.Random(4)
    for _ in range(120):
        text = sample(name, rng, length)
        assert parses(text), text
        for _ in range(3):
            changed = mutated(text, rng, letters)
            if accepts(name, changed):
                assert parses(changed), changed


UNCHECKED = ("mismatched tag", "duplicate attribute")


def test_documents_are_read_by_expat() -> None:
    rng = random.Random(6)
    for _ in range(120):
        text = sample("xml", rng, 40)
        try:
            xml.etree.ElementTree.fromstring(text)
        except xml.etree.ElementTree.ParseError as error:
            assert str(error).startswith(UNCHECKED), text  # noqa: PT017
