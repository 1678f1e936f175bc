"""The tables of docs/comparison.md: what engines of masks do with schemas that are easy to get wrong, and with bad habits.

    PYTHONPATH=. python -m tests.tools.comparison            prints the tables of the installed engines
    PYTHONPATH=. python -m tests.tools.comparison --write    writes them into the page; all engines have to be installed

Every text is replayed token by token, as `constrained bench masks` does it, with a token a byte.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from constrained.automaton.bitmask import allows
from constrained.bench.masks.engines import load_engine
from constrained.bench.masks.replay import Replayer
from constrained.bench.masks.workload import Instance, VocabularyData
from constrained.vocabulary import Vocabulary

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
BEGIN, END = "<!-- engines: begin -->", "<!-- engines: end -->"
ENDINGS = "<!-- endings: begin -->", "<!-- endings: end -->"
ENGINES = {
    "constrained": "constrained",
    "llguidance": "llguidance",
    "xgrammar": "xgrammar",
    "glrmask": "glrmask",
    "outlines": "outlines_core",
}
"""Name -> the module that has to be installed."""

RIGHT, LAX, STRICT, REFUSED = "right", "takes invalid", "rejects valid", "refused"


@dataclass(frozen=True)
class Case:
    """A schema, and texts that it allows and forbids, in the spelling of `json.dumps`.

    Attributes:
        about: what is easy to get wrong.
        schema: the schema.
        valid, invalid: texts.
    """

    about: str
    schema: Any
    valid: tuple[str, ...]
    invalid: tuple[str, ...]


CASES = (
    Case(
        "`required` without `properties`",
        {"type": "object", "required": ["a"]},
        ('{"a": 1}', '{"a": 1, "b": 2}'),
        ("{}", '{"b": 1}'),
    ),
    Case(
        "`maxLength` counts characters, not escapes",
        {"type": "string", "maxLength": 2},
        (r'"\n\n"', '"éé"'),
        ('"abc"', r'"\n\n\n"'),
    ),
    Case("no raw control characters in strings", {"type": "string", "maxLength": 3}, ('"a"',), ('"a\nb"',)),
    Case("`pattern` is not anchored", {"type": "string", "pattern": "b"}, ('"abc"', '"b"'), ('"ac"',)),
    Case(
        "`pattern` beside `maxLength`",
        {"type": "string", "pattern": "^a+$", "maxLength": 2},
        ('"aa"',),
        ('"aaa"', '"b"'),
    ),
    Case(
        "`format: date` knows the months",
        {"type": "string", "format": "date"},
        ('"2024-02-29"',),
        ('"2024-13-01"',),
    ),
    Case("`multipleOf`", {"type": "integer", "multipleOf": 7, "minimum": 0}, ("0", "21"), ("20", "-7")),
    Case(
        "bounds of numbers with fractions",
        {"type": "number", "minimum": 0.5, "maximum": 1.5},
        ("0.5", "1.25", "1.5"),
        ("0.49", "1.51", "2"),
    ),
    Case("`enum` beside `type`", {"type": "string", "enum": ["a", 1]}, ('"a"',), ("1",)),
    Case("`const` with an object", {"const": {"a": [1, None]}}, ('{"a": [1, null]}',), ('{"a": [1]}',)),
    Case("`not`", {"type": "integer", "not": {"const": 3}}, ("2", "33"), ("3",)),
    Case(
        "`oneOf` means exactly one",
        {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "integer", "maximum": 5}]},
        ("6", "-1"),
        ("3",),
    ),
    Case(
        "`allOf` of two objects",
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]
        },
        ('{"a": 1, "b": "x"}',),
        ('{"a": 1}', '{"a": "x", "b": "x"}'),
    ),
    Case(
        "`if`, `then`, `else`",
        {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
            "required": ["kind"],
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["n"]},
        },
        ('{"kind": "a", "n": 1}', '{"kind": "b"}'),
        ('{"kind": "a"}',),
    ),
    Case(
        "`dependentRequired`",
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "dependentRequired": {"a": ["b"]},
        },
        ('{"a": 1, "b": 2}', '{"b": 2}', "{}"),
        ('{"a": 1}',),
    ),
    Case(
        "`patternProperties`",
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        ('{"xa": 1}', "{}"),
        ('{"xa": "b"}', '{"a": 1}'),
    ),
    Case("`minProperties`", {"type": "object", "minProperties": 2}, ('{"a": 1, "b": 2}',), ('{"a": 1}', "{}")),
    Case(
        "a key may not come twice",
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        ('{"a": 1}', '{"a": 1, "b": 2}'),
        ('{"a": 1, "a": "x"}',),
    ),
    Case(
        "`contains`",
        {"type": "array", "contains": {"const": 1}, "items": {"type": "integer"}},
        ("[2, 1]",),
        ("[2]", "[]"),
    ),
    Case(
        "`uniqueItems`",
        {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, 3]}},
        ("[1, 2]", "[]"),
        ("[1, 1]",),
    ),
    Case(
        "`unevaluatedProperties`",
        {
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "integer"}}}],
            "properties": {"b": {"type": "integer"}},
            "unevaluatedProperties": False,
        },
        ('{"b": 2}', '{"a": 1}'),
        ('{"c": 1}',),
    ),
    Case(
        "`oneOf` of `required` at the root",
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        ('{"a": 1}', '{"b": 1}'),
        ("{}", '{"a": 1, "b": 1}'),
    ),
    Case(
        "`allOf` with `if` and `then` at the root",
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "b": {"type": "integer"}},
            "allOf": [{"if": {"properties": {"a": {"const": True}}}, "then": {"required": ["b"]}}],
        },
        ('{"a": false}', '{"a": true, "b": 1}'),
        ('{"a": true}',),
    ),
    Case(
        "a look-ahead in a `pattern`: a password",
        {"type": "string", "pattern": "^(?=.*[0-9])(?=.*[a-z]).{3,5}$"},
        ('"a1b"', '"12a4"'),
        ('"abc"', '"123"', '"a1"'),
    ),
    Case("`\\b` in a `pattern`", {"type": "string", "pattern": r"\bred\b"}, ('"a red b"', '"red"'), ('"reddish"',)),
    Case(
        "the 29th of February in `date-time`",
        {"type": "string", "format": "date-time"},
        ('"2024-02-29T10:00:00Z"',),
        ('"2023-02-29T10:00:00Z"',),
    ),
    Case(
        "a surrogate pair is one character, half of one is none",
        {"type": "string", "maxLength": 1},
        (r'"\ud83d\ude00"',),
        (r'"\ud83d"',),
    ),
    Case("`const` with 20 digits", {"const": 12345678901234567890}, ("12345678901234567890",), ("12345678901234567891",)),
    Case(
        "bounds beyond 53 bits",
        {"type": "integer", "minimum": 9007199254740993},
        ("9007199254740993", "9007199254740994"),
        ("9007199254740992",),
    ),
    Case(
        "an escape in a name that is declared",
        {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        ('{"n": 1}', '{"m": "a"}'),
        (r'{"\u006e": "a"}',),
    ),
    Case(
        "`patternProperties` beside `additionalProperties: false`",
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
        ("{}", '{"x1": 1}'),
        ('{"y": 1}', '{"x1": "a"}'),
    ),
    Case(
        "`enum: []` of a member that is optional",
        {"type": "object", "properties": {"a": {"enum": []}, "b": {"type": "integer"}}, "additionalProperties": False},
        ("{}", '{"b": 1}'),
        ('{"a": 1}',),
    ),
    Case("the character U+007F in strings", {"type": "string"}, ('"a\x7fb"',), ('"a',)),
    Case(
        "a float of a bound that excludes itself",
        {"type": "number", "exclusiveMaximum": 1},
        ("0.5", "0.99"),
        ("0.99999999999999999999", "1.0"),
    ),
    Case(
        "recursion",
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                    "required": ["next"],
                    "additionalProperties": False,
                }
            },
        },
        ('{"next": {"next": null}}',),
        ('{"next": {}}',),
    ),
    Case(
        "members in another order",
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
        ('{"b": 1, "a": 2}', '{"a": 1, "b": 2}'),
        ('{"a": 1}',),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Habit:
    """What a model repeats wherever it may.

    Attributes:
        about: the habit.
        schema: under which it writes.
        likes: the characters that it writes whenever they are allowed.
    """

    about: str
    schema: Any
    likes: bytes


HABITS = (
    Habit(
        "white space between members",
        {
            "type": "object",
            "properties": {"a": {"enum": [1]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        b" \n\t",
    ),
    Habit("a string that is never closed", {"type": "string"}, b"a"),
    Habit("a list that is never closed", {"type": "array", "items": {"enum": [1]}}, b"1,"),
)
HABIT_LIMIT = 200
ENDS, CUT = "ends", "**cut**"

_TOKENS = [*(bytes([i]) for i in range(256)), b""]
VOCABULARY = Vocabulary.from_bytes(_TOKENS, [256])


def verdict(engine: Any, case: Case) -> str:
    """What an engine does with the texts of a case."""
    schema = json.dumps(case.schema)
    texts = [(text, True) for text in case.valid] + [(text, False) for text in case.invalid]
    instances = [Instance(valid, VOCABULARY.encode(text)) for text, valid in texts]
    replayer = Replayer((VOCABULARY.size + 31) // 32, VOCABULARY.eos_ids)
    try:
        replays = replayer.replay(
            *replayer.first(lambda: engine.compile(case.schema, schema)), instances
        ).replays
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of a Rust extension is not an Exception
        return REFUSED
    lax = any(replay.accepted and not replay.valid for replay in replays)
    strict = any(replay.valid and not replay.accepted for replay in replays)
    return ", ".join([LAX] * lax + [STRICT] * strict) or RIGHT


def column(name: str) -> tuple[str, list[str]]:
    """An engine with its version, and its verdicts."""
    engine = load_engine(name)(VocabularyData(_TOKENS, (256,)), 1)
    return f"{name} {engine.version}", [verdict(engine, case) for case in CASES]


def ending(engine: Any, habit: Habit) -> str:
    """Whether a model with a habit comes to the end of a valid text within `HABIT_LIMIT` tokens.

    It writes what it likes where that is allowed, then ends where it may, then writes the first character allowed. An engine
    that knows a limit of tokens is told it.
    """
    try:
        compiled = engine.compile(habit.schema, json.dumps(habit.schema))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of a Rust extension is not an Exception
        return REFUSED
    rows = np.zeros((1, (VOCABULARY.size + 31) // 32), dtype=np.int32)
    (target,) = compiled.targets(rows)
    state, text = compiled.start(), b""
    for written in range(HABIT_LIMIT):
        if compiled.fill_within is None:
            compiled.fill(state, *target)
        else:
            compiled.fill_within(state, rows[0], HABIT_LIMIT - written - 1)  # the last token is the end
        liked = next((byte for byte in habit.likes if allows(rows[0], byte)), None)
        done = allows(rows[0], 256) if compiled.complete is None else compiled.complete(state)
        if liked is None and done:
            jsonschema.validate(json.loads(text), habit.schema)
            return ENDS
        token = next(byte for byte in range(256) if allows(rows[0], byte)) if liked is None else liked
        text += bytes([token])
        after = compiled.commit(state, token)
        state = state if compiled.in_place else after
    return CUT


def endings(name: str) -> tuple[str, list[str]]:
    """An engine with its version, and how texts end under it."""
    engine = load_engine(name)(VocabularyData(_TOKENS, (256,)), 1)
    return f"{name} {engine.version}", [ending(engine, habit) for habit in HABITS]


def endings_table(columns: list[tuple[str, list[str]]]) -> str:
    """How texts end, as Markdown."""
    lines = ["| | " + " | ".join(head for head, _ in columns) + " |", "|---|" + "---|" * len(columns)]
    for i, habit in enumerate(HABITS):
        lines.append(f"| {habit.about} | " + " | ".join(cells[i] for _, cells in columns) + " |")
    return "\n".join(lines)


def table(columns: list[tuple[str, list[str]]]) -> str:
    """The table, as Markdown."""
    heads = [head for head, _ in columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for i, case in enumerate(CASES):
        cells = [f"**{cells[i]}**" if LAX in cells[i] else cells[i] for _, cells in columns]
        lines.append(f"| {case.about} | " + " | ".join(cells) + " |")
    counts = [f"{cells.count(RIGHT)} of {len(CASES)}" for _, cells in columns]
    return "\n".join([*lines, "| right | " + " | ".join(counts) + " |"])


def written(page: str, begin: str = BEGIN, end: str = END) -> list[tuple[str, list[str]]]:
    """The columns of a table on the page, without the line of counts."""
    part = page.partition(begin)[2].partition(end)[0].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part]
    head, _, *rows = cells
    if begin == BEGIN:
        rows = [[cell.strip("*") for cell in row] for row in rows[:-1]]
    return [(name, [row[i] for row in rows]) for i, name in enumerate(head[1:], 1)]


def main() -> None:
    """Prints the tables, or writes them."""
    made = {
        (BEGIN, END): table([column(name) for name in ENGINES]),
        ENDINGS: endings_table([endings(name) for name in ENGINES]),
    }
    if "--write" not in sys.argv:
        print(*made.values(), sep="\n\n")
        return
    page = PAGE.read_text("utf-8")
    for (begin, end), lines in made.items():
        before, after = page.partition(begin)[0], page.partition(end)[2]
        page = f"{before}{begin}\n{lines}\n{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
