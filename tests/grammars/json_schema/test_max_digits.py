"""``max_digits`` bounds the digits of numbers without bounds, and nothing else."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pydantic
import pytest

from constrained import as_constraint, json_schema, python_type
from constrained.automaton import compile
from constrained.chat.tools import Tool
from constrained.constraint.json import MAX_DIGITS
from constrained.errors import InvalidConstraint
from tests.grammars.json_schema.test_contents import accepted, draws
from tests.support.finite import byte_vocabulary
from tests.support.json_walks import walk

NUMBERS = [
    "0", "-12", "123", "1234", "-1234", "1.5", "1.234", "1.2345", "12.5e-7", "1e199", "1e200", "1E+05",
    "1234.5",
]  # fmt: skip


@dataclass
class Part:
    count: int
    price: float
    total: Decimal
    grade: int | None = None


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        ({"type": "integer"}, {"0", "-12", "123"}),
        ({"type": "number"}, {"0", "-12", "123", "1.5", "1.234", "12.5e-7", "1e199", "1e200", "1E+05"}),
        ({}, {"0", "-12", "123", "1.5", "1.234", "12.5e-7", "1e199", "1e200", "1E+05"}),
        ({"type": "integer", "minimum": 0}, {"0", "123"}),
        ({"type": "integer", "minimum": 1000}, {"1234"}),
        ({"type": "integer", "minimum": 0, "maximum": 10**30}, {"0", "123", "1234"}),
        ({"type": "number", "minimum": 0, "maximum": 2}, {"0", "1.5", "1.234"}),
        ({"type": "integer", "multipleOf": 2}, {"0", "-12"}),
        ({"type": "number", "not": {"type": "integer"}}, {"1.5", "1.234"}),
        ({"enum": [1234, 1.2345]}, {"1234", "1.2345"}),
        (
            {"anyOf": [{"type": "integer", "multipleOf": n} for n in (2, 3, 5, 7, 11, 13, 17, 19)]},
            {"0", "-12", "123"},
        ),
    ],
)
def test_only_numbers_without_bounds_are_limited(schema: dict[str, Any], allowed: set[str]) -> None:
    exact, limited = json_schema(schema), json_schema(schema, max_digits=3)
    for text in NUMBERS:
        assert accepted(limited, text) == (text in allowed), text
        assert accepted(exact, text) or text not in allowed, text


def test_numbers_everywhere_are_limited() -> None:
    long = "1" * (MAX_DIGITS + 1)
    for schema in (True, {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, {"items": {}}):
        for text in (f"[{long[1:]}]", f"[{long}]"):
            assert accepted(as_constraint(schema), text) == (len(text) == MAX_DIGITS + 2)
            assert accepted(json_schema(schema), text)
    many = {
        "type": "object",
        "properties": {
            f"p{i}": {"type": "object", "properties": {"n": {"type": "number"}}} for i in range(200)
        },
    }
    for text in (f'{{"p150":{{"n":{long[1:]}}}}}', f'{{"p150":{{"n":{long}}}}}'):
        assert accepted(as_constraint(many), text) == (long not in text)


@pytest.mark.parametrize("step", ["3989", "1024", "1e17", "0.000000000000000007", "2.5"])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_multiples_of_long_numbers_are_found(kind: str, step: str) -> None:
    # Their digits were counted by an intersection, and a search for a short multiple ran out of steps in a mask.
    schema = {"type": kind, "multipleOf": json.loads(step)}
    vocabulary = byte_vocabulary("12", "123", "1234", "-1", "-12", "99", "0000", "00000")
    automaton = compile(json_schema(schema, max_digits=MAX_DIGITS), vocabulary)
    for budget in (2, 6, 11):
        automaton.fill_mask_within(automaton.start, automaton.new_mask(), budget)
    for seed in range(6):
        text = walk(automaton, random.Random(seed), 12)
        value = Fraction(Decimal(text))
        assert (value / Fraction(step)).denominator == 1, text
        assert kind == "number" or value.denominator == 1


@pytest.mark.parametrize(("low", "high"), [(None, None), (-5, None), (None, 5000), (1, 88)])
def test_few_digits_and_multiples_meet_in_the_same_numbers(low: int | None, high: int | None) -> None:
    bounds = {key: value for key, value in (("minimum", low), ("maximum", high)) if value is not None}
    limited = json_schema({"type": "integer", "multipleOf": 7, **bounds}, max_digits=2)
    most = 10**5 if low is not None and high is not None else 10 ** max(2, len(str(high or low or 0)) + 1)
    for value in range(-1200, 12_000, 7 * 13):
        allowed = (low is None or value >= low) and (high is None or value <= high) and abs(value) < most
        for near in (value, value + 1):
            assert accepted(limited, str(near)) == (allowed and near % 7 == 0), near


def test_who_has_the_limit() -> None:
    long = "9" * 30
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    text = f'{{"n": {long}}}'
    assert accepted(json_schema(schema), text)
    assert not accepted(as_constraint(schema), text)
    assert not accepted(Tool("f", schema).arguments, text)
    whole = f'{{"count":{long},"price":1,"total":1}}'
    assert not accepted(python_type(Part), whole)
    assert accepted(python_type(Part, max_digits=None), whole)
    assert accepted(python_type(Part, max_digits=30), whole)


@pytest.mark.parametrize(
    "hint", [Part, pydantic.create_model("Finite", v=(pydantic.FiniteFloat, ...), d=(Decimal, ...))]
)
def test_limited_numbers_are_numbers_of_python(hint: Any) -> None:
    constraint = python_type(hint, whitespace="none")
    for text in draws(constraint, 40):
        assert "inf" not in repr(constraint.parse(text))
        assert (
            max(map(len, json.loads(text, parse_float=str, parse_int=str).values()), default=0)
            < 2 * MAX_DIGITS + 8
        )


def test_the_report_mentions_the_limit() -> None:
    schema = {
        "properties": {
            "a": {"type": ["integer", "null"]},
            "b": {"type": "integer", "minimum": 0, "maximum": 9},
            "c": {"type": "number"},
        }
    }
    notes = {entry.pointer: entry.note for entry in as_constraint(schema).report if entry.keyword == "type"}
    assert "24 digits" in notes["#/properties/a/type"]
    assert "24 digits" in notes["#/properties/c/type"]
    assert notes["#/properties/b/type"] == ""
    assert not any(entry.note for entry in json_schema(schema).report)


@pytest.mark.parametrize("digits", [0, -1, True, 2.5, "3", 10**9])
def test_a_limit_that_is_no_number_of_digits_is_refused(digits: Any) -> None:
    with pytest.raises(InvalidConstraint, match="max_digits"):
        python_type(int, max_digits=digits)
