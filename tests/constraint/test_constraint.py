"""Constraints: what a user may ask for, and the value of a text."""

from __future__ import annotations

import enum
import json
import pickle
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Literal
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained.constraint import Constraint, as_constraint, choice, json_schema, python_type, regex
from constrained.errors import (
    InvalidConstraint,
    RejectedValue,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from constrained.grammars import ir
from constrained.grammars.types.reader import name_of
from tests.support.judge import ReferenceRecognizer
from tests.support.matching import matches
from tests.support.type_examples import Address, Box, Color, Contact, Folder, Line, Order, Owner, Tree, encode


def allows(constraint: Constraint, text: str) -> bool:
    """Whether the grammar of a constraint of bare text has this text."""
    (body,) = constraint.grammar.rules.values()
    assert isinstance(body, ir.Terminal)
    return matches(body.regex, text)


# ---------------------------------------------------------------- choice


def test_a_choice_of_strings_is_bare_text() -> None:
    colors = choice(["red", "light blue", 'a "quoted" one', "größe", ""])
    for text in ("red", "light blue", 'a "quoted" one', "größe", ""):
        assert allows(colors, text)
        assert colors.parse(text) == text
    for text in ('"red"', "re", "redd", "blue"):
        assert not allows(colors, text)
        with pytest.raises(RejectedValue):
            colors.parse(text)
    assert colors.schema["enum"][0] == "red"


def test_values_of_a_choice_may_be_passed_one_by_one() -> None:
    assert choice("red", "dark blue").key == choice(["red", "dark blue"]).key


def test_a_choice_of_other_values_is_their_json() -> None:
    values = [1, 1.5, True, None, {"a": [1, "ü"]}, "text"]
    mixed = choice(values)
    for text, value in zip(["1", "1.5", "true", "null", '{"a": [1, "ü"]}', "text"], values, strict=True):
        assert allows(mixed, text)
        assert mixed.parse(text) == value
        assert type(mixed.parse(text)) is type(value)


def test_a_choice_of_members_gives_members() -> None:
    assert choice(Color).parse("red") is Color.RED
    assert choice([Color.BLUE, "green"]).parse("green") == "green"


def test_the_same_value_twice_counts_once() -> None:
    assert choice(["a", "b", "a"]) == choice(["b", "a"])


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([], UnsatisfiableConstraint, "at least one value"),
        ("abc", InvalidConstraint, "choice([...])"),
        ({"a": 1}, InvalidConstraint, "choice([...])"),
        ([1, "1"], InvalidConstraint, "choice 1"),
        ([Color.RED, "red"], InvalidConstraint, "choice 1"),
        (["a", object()], InvalidConstraint, "choice 1"),
        ([float("nan")], InvalidConstraint, "choice 0"),
        (["a", "\ud800"], InvalidConstraint, "choice 1"),
        ([b"a"], InvalidConstraint, "choice 0"),
    ],
)
def test_choices_that_cannot_be(values: Any, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=re.escape(reason)):
        choice(values)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=5), st.text(max_size=4))
def test_a_choice_allows_its_texts_and_no_other(values: list[str], other: str) -> None:
    constraint = choice(values)
    assert all(allows(constraint, text) for text in values)
    assert allows(constraint, other) == (other in values)


# ---------------------------------------------------------------- regex


def test_a_regex_matches_the_whole_text_and_gives_it() -> None:
    plate = regex(r"[A-Z]{2} [0-9]+")
    assert allows(plate, "AB 12")
    assert not allows(plate, "xAB 12")
    assert plate.parse("AB 12") == "AB 12"
    assert plate.schema is None


def test_a_compiled_pattern_brings_its_flags() -> None:
    compiled = re.compile("a b # comment", re.IGNORECASE | re.VERBOSE)
    assert regex(compiled) == regex("a b # comment", flags="xi") == as_constraint(compiled)
    assert allows(regex(compiled), "AB")
    assert not allows(regex(compiled), "a b")


def test_patterns_that_are_none() -> None:
    with pytest.raises(InvalidConstraint, match="not bytes"):
        regex(b"a")  # type: ignore[arg-type]
    with pytest.raises(InvalidConstraint, match="flag 'z'"):
        regex("a", flags="z")
    with pytest.raises(InvalidConstraint):
        _ = regex("(").grammar


# ---------------------------------------------------------------- JSON Schema


def test_a_schema_may_be_text() -> None:
    text = '\ufeff{"type": "object", "properties": {"a": true}}'
    constraint = json_schema(text)
    assert constraint == json_schema(json.loads(text[1:])) == json_schema(text.encode())
    assert constraint.parse('{"a": [1, null]}') == {"a": [1, None]}


def test_a_constraint_does_not_change_with_the_dict_it_was_made_of() -> None:
    schema = {"type": "integer"}
    constraint = json_schema(schema)
    schema["type"] = "string"
    assert constraint.schema == {"type": "integer"}


def test_what_makes_two_schemas_different() -> None:
    ordered = json_schema({"properties": {"a": {}, "b": {}}})
    assert ordered == json_schema({"properties": {"a": {}, "b": {}}})
    assert ordered != json_schema({"properties": {"b": {}, "a": {}}}), "properties are written in their order"
    assert ordered != json_schema({"properties": {"a": {}, "b": {}}}, whitespace="none")
    assert json_schema({"const": 1}) != json_schema({"const": True})


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"a": 1,\n "b": [1,,2]}', "line 2, column 10"),
        ("", "line 1, column 1"),
        ('{"a": 1, "a": 2}', 'key "a"'),
        ('{"maximum": NaN}', "NaN"),
        ("[1]", "choice([...])"),
        (b'{"a": "\xff"}', "byte 7"),
        ("[" * 100_000, "nested too deeply"),
        ({"properties": {1: {}}}, "#/properties"),
        ({"properties": {"a/b": {"enum": [{1, 2}]}}}, "#/properties/a~1b/enum/0"),
        ({"maximum": float("inf")}, "#/maximum"),
        (3, "of type int"),
        (None, "of type NoneType"),
    ],
)
def test_schemas_that_are_not_json(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidConstraint, match=re.escape(reason)):
        json_schema(schema)


def test_a_schema_that_holds_itself() -> None:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    with pytest.raises(InvalidConstraint, match=r"\$ref"):
        json_schema(schema)


def test_the_place_of_a_mistake_is_shown() -> None:
    with pytest.raises(InvalidConstraint) as caught:
        json_schema('{"type": "string"\n "minLength": 1}')
    line, caret = str(caught.value).splitlines()[2:4]
    assert line[caret.index("^")] == '"'


def test_unknown_white_space() -> None:
    for make in (lambda: json_schema({}, whitespace="some"), lambda: python_type(int, whitespace="some")):  # type: ignore[arg-type]
        with pytest.raises(InvalidConstraint, match="'bounded', 'none', 'any', 'indent'"):
            make()


@pytest.mark.parametrize("digits", ["0", "-7", "9" * 5000, "-" + "1" + "0" * 9000])
def test_integers_of_any_length_are_read(digits: str) -> None:
    read = json_schema({}).parse(digits)
    sys.set_int_max_str_digits(0)
    try:
        assert str(read) == digits
    finally:
        sys.set_int_max_str_digits(sys.int_info.default_max_str_digits)


def test_text_that_python_cannot_hold() -> None:
    with pytest.raises(RejectedValue, match="nested deeper"):
        json_schema({}).parse("[" * 100_000 + "]" * 100_000)
    with pytest.raises(RejectedValue, match="column 2"):
        json_schema({}).parse("[")


# ---------------------------------------------------------------- Python types


class Event(pydantic.BaseModel):
    day: date
    start: datetime
    at: time
    length: timedelta


class Even(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def check(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd numbers are not even")
        return number


def test_the_text_of_a_type_is_json() -> None:
    assert python_type(Literal["a", "b"]).parse('"a"') == "a"
    assert python_type(Color).parse('"red"') is Color.RED
    assert python_type(list[date]).parse('["2024-02-29"]') == [date(2024, 2, 29)]
    assert python_type(Even).parse('{"number": 2}') == Even(number=2)


@pytest.mark.parametrize(
    "hint",
    [
        *(
            Order,
            Line,
            Tree,
            Folder,
            Owner,
            Contact,
            Box[Color],
            Event,
            date,
            datetime,
            time,
            timedelta,
            UUID,
        ),
        *(float | int | str, dict[Color, bool], tuple[int, Literal["a", None]], list[Address] | None),
    ],
    ids=name_of,
)
def test_every_text_that_a_type_allows_is_a_value_of_it(hint: Any) -> None:
    constraint = python_type(hint)
    judge = ReferenceRecognizer(constraint.grammar)
    validator = Draft202012Validator(constraint.schema)
    for seed in range(6):
        text = judge.sample(random.Random(seed)).decode()
        value = constraint.parse(text)
        validator.validate(json.loads(text))
        validator.validate(json.loads(json.dumps(encode(value))))


def test_limits_of_python_are_enforced_and_not_shown() -> None:
    constraint = python_type(list[date | timedelta])
    assert "pattern" not in json.dumps(constraint.schema)
    judge = ReferenceRecognizer(constraint.grammar)
    assert judge.accepts(b'["0001-01-01", "P999999Y"]')
    assert not judge.viable(b'["0000')
    assert judge.accepts(b'["-P999999999D"]')
    assert not judge.viable(b'["P1234567890')
    assert not judge.viable(b'["-P999999999DT1')


def test_a_value_that_the_type_itself_refuses() -> None:
    with pytest.raises(RejectedValue, match="odd numbers are not even") as caught:
        python_type(Even).parse('{"number": 3}')
    assert caught.value.text == '{"number": 3}'
    assert caught.value.value == {"number": 3}
    assert isinstance(caught.value.__cause__, pydantic.ValidationError)


def test_types_of_one_schema_share_the_language_and_not_the_value() -> None:
    def make() -> type:
        @dataclass
        class City:
            name: str

        return City

    first, second = python_type(make()), python_type(make())
    assert first.key == second.key == as_constraint(first.schema).key
    assert first != second
    assert first != json_schema(first.schema)


def test_types_are_read_when_the_constraint_is_made() -> None:
    @dataclass
    class Job:
        payload: bytearray

    with pytest.raises(UnsupportedConstraint, match=r"Job\.payload"):
        python_type(Job)


# ---------------------------------------------------------------- all of them

EXAMPLES = [
    json_schema({"type": "object"}),
    json_schema(True),
    choice(["a", 1, None]),
    regex("a+", flags="i"),
    regex("a+", dialect="ecma"),
    python_type(Order),
    python_type(list[Line] | None),
    python_type(Even),
]


@pytest.mark.parametrize("constraint", EXAMPLES, ids=repr)
def test_constraints_are_values(constraint: Constraint) -> None:
    copied = pickle.loads(pickle.dumps(constraint))
    assert copied == constraint
    assert hash(copied) == hash(constraint)
    assert copied.key == constraint.key
    assert as_constraint(constraint) is constraint
    assert sum(constraint == other for other in EXAMPLES) == 1
    assert "\n" not in constraint.render()
    assert len(constraint.render()) < 100
    assert len(repr(constraint)) < 100
    with pytest.raises(AttributeError):
        constraint.whitespace = "any"  # type: ignore[attr-defined]


class Mood(str, enum.Enum):
    GOOD = "good"


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ({"type": "integer"}, json_schema({"type": "integer"}, max_digits=24)),
        (True, json_schema(True, max_digits=24)),
        (re.compile("a"), regex("a")),
        (Order, python_type(Order)),
        (list[int], python_type(list[int])),
        (int | None, python_type(int | None)),
        (Literal["a"], python_type(Literal["a"])),
        (Mood, python_type(Mood)),
        (Any, python_type(Any)),
    ],
)
def test_what_is_meant_by_what_is_passed(target: Any, meant: Constraint) -> None:
    assert as_constraint(target) == meant


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("a|b", "regex(pattern)"),
        (b"{}", "json_schema(text)"),
        (["a", "b"], "choice([...])"),
        ({"a", "b"}, "choice([...])"),
        (None, "no constraint"),
        (5, "not a type"),
        (Mood.GOOD, "regex(pattern)"),
    ],
)
def test_an_ambiguous_target_is_an_error(target: Any, reason: str) -> None:
    with pytest.raises((InvalidConstraint, UnsupportedConstraint), match=re.escape(reason)):
        as_constraint(target)


def test_constraints_need_nothing_heavy() -> None:
    script = (
        "import sys; from constrained.constraint import *; as_constraint({}); choice(['a']); regex('a');"
        "python_type(list[int]).parse('[1]');"
        "heavy = {'torch', 'transformers', 'numpy', 'pydantic', 'jsonschema'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
