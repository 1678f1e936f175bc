"""``max_string_length`` and ``max_items`` bound strings and arrays without bounds; ``max_digits`` the digits of times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from constrained import Extractor, json_schema, python_type
from constrained.errors import InvalidConstraint
from tests.grammars.json_schema.test_contents import accepted

TEXT: dict[str, Any] = {"type": "string"}
LIST: dict[str, Any] = {"type": "array"}


@pytest.mark.parametrize(
    ("schema", "value", "allowed"),
    [
        (TEXT, "abc", True),
        (TEXT, "abcd", False),
        (TEXT, "\u00e9\U0001f600\n", True),
        ({}, ["abcd"], False),
        ({"type": ["string", "null"]}, "abcd", False),
        ({**TEXT, "maxLength": 5}, "abcde", True),
        ({**TEXT, "minLength": 5}, "abcde", True),
        ({**TEXT, "minLength": 5}, "abcdef", False),
        ({**TEXT, "pattern": "^a+$"}, "aaaa", False),
        ({**TEXT, "pattern": "^a{4}a*$"}, "aaaa", True),
        ({**TEXT, "pattern": "^(?:a|a{9})$"}, "a" * 9, True),
        ({**TEXT, "format": "uuid"}, "123e4567-e89b-12d3-a456-426614174000", True),
        ({"enum": ["abcd"]}, "abcd", True),
        ({"not": {"type": ["array", "object"]}}, "abcd", False),
        ({"properties": {"abcd": {}}}, {"abcd": 1}, True),
        (LIST, [1, 2], True),
        (LIST, [1, 2, 3], False),
        ({}, {"a": [1, 2, 3]}, False),
        ({**LIST, "maxItems": 3}, [1, 2, 3], True),
        ({**LIST, "minItems": 3}, [1, 2, 3], True),
        ({**LIST, "minItems": 3}, [1, 2, 3, 4], False),
        ({**LIST, "prefixItems": [{}, {}, {}]}, [1, 2, 3], True),
        ({**LIST, "contains": {"const": 1}, "minContains": 3}, [1, 1, 1], True),
        ({**LIST, "uniqueItems": True}, [1, 2, 3], False),
    ],
)
def test_only_strings_and_arrays_without_bounds_are_limited(schema: Any, value: Any, allowed: bool) -> None:
    text = json.dumps(value)
    assert accepted(json_schema(schema), text)
    assert accepted(json_schema(schema, max_string_length=3, max_items=2), text) == allowed


def test_a_python_type_is_limited_too() -> None:
    @dataclass
    class Note:
        title: str
        tags: list[str]

    limited = python_type(Note, max_string_length=3, max_items=1)
    for tags in (["abc"], ["abcd"], ["a", "b"]):
        text = json.dumps({"title": "abc", "tags": tags})
        assert accepted(python_type(Note), text)
        assert accepted(limited, text) == (tags == ["abc"])


@pytest.mark.parametrize(
    ("format", "text"),
    [("date-time", "2025-01-01T00:00:00.{}Z"), ("time", "23:59:60.{}Z"), ("duration", "P{}DT1H")],
)
def test_digits_of_times_are_limited(format: str, text: str) -> None:
    schema = {"type": "string", "format": format}
    for digits in (3, 4, 400):
        written = json.dumps(text.format("1" * digits))
        assert accepted(json_schema(schema), written)
        assert accepted(json_schema(schema, max_digits=2), written) == (digits <= 4)
    long = text.format("1" * 9)
    assert accepted(json_schema({**schema, "const": long}, max_digits=4), json.dumps(long))


def test_the_report_names_the_bounds() -> None:
    schema = {"properties": {"a": TEXT, "b": LIST, "c": {**TEXT, "maxLength": 9, "format": "time"}}}
    limited = json_schema(schema, max_string_length=3, max_items=2, max_digits=4)
    assert {entry.pointer: entry.note for entry in limited.report if entry.note} == {
        "#/properties/a/type": "at most 3 characters (max_string_length)",
        "#/properties/b/type": "at most 2 items (max_items)",
        "#/properties/c/format": "at most 4 digits in a row (max_digits)",
    }
    assert str(limited).endswith("max_digits=4, max_string_length=3, max_items=2)")


def test_bounds_that_are_no_numbers_are_refused() -> None:
    for name in ("max_string_length", "max_items"):
        for bound in (0, -1, True, "9"):
            with pytest.raises(InvalidConstraint, match=f"{name}={bound!r} is not a number of"):
                json_schema({}, **{name: bound})


def test_an_extractor_has_them_for_types_and_schemas() -> None:
    for wanted in (list[str], {"type": "array", "items": TEXT}):
        constraint = Extractor("bundled", wanted, max_string_length=3, max_items=2).generator.constraint
        assert accepted(constraint, '["abc", "def"]')
        assert not accepted(constraint, '["abcd"]')
        assert not accepted(constraint, '["a", "b", "c"]')
    with pytest.raises(
        InvalidConstraint, match=r"max_items bounds what .*(.|\n)*json_schema\(schema, max_items=2"
    ):
        Extractor("bundled", json_schema({}), max_items=2)
