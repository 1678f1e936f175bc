"""Constraints without a class or a schema: names with types; and what looks like a schema and says nothing is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import constrained
from constrained import InvalidConstraint, fields
from constrained.constraint.generated import generated_constraint
from constrained.extraction.examples import accepts_text
from tests.support.finite import byte_vocabulary


def test_names_with_types_are_a_record() -> None:
    constraint = generated_constraint(fields("name, born: date, tags: list[str], children: int | None"))
    text = '{"name": "Ana", "born": "2 May 1950", "tags": ["a"], "children": null}'
    assert constraint.parse(text) == {
        "name": "Ana",
        "born": dt.date(1950, 5, 2),
        "tags": ["a"],
        "children": None,
    }
    assert constraint.schema["required"] == ["name", "born", "tags", "children"]


def test_a_dict_of_types_is_a_record() -> None:
    constraint = generated_constraint({"name": str, "kind": list[dt.date]})
    assert constraint.parse('{"name": "Ana", "kind": ["2001-01-01"]}') == {
        "name": "Ana",
        "kind": [dt.date(2001, 1, 1)],
    }


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("name: Person", "name: Person is no type"),
        ("name: open('x')", "is no type that can be named here"),
        ("name=1", "does not name the members"),
        ("a b", "does not name the members"),
        ("a): import os; (b", "does not name the members"),
        ("", "does not name the members"),
        ("a, a", "'a' stands twice"),
    ],
)
def test_other_texts_are_refused(members: str, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        fields(members)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"name": "string", "born": "integer"}, r'did you mean \{"type": "object", "properties": \{"name"'),
        ({"properties": {"a": {"typ": "integer"}}}, "'typ' is no keyword(.|\n)*#/properties/a/typ.*'type'"),
        ({"type": "object", "requierd": ["a"]}, "did you mean 'required'"),
        ({"additonalProperties": False, "type": "object"}, "did you mean 'additionalProperties'"),
    ],
)
def test_a_schema_that_says_nothing_or_misspells_a_keyword_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        generated_constraint(schema)
    constrained.json_schema(schema)  # which takes unknown keywords as the specification says


@pytest.mark.parametrize(
    "schema",
    [{}, True, {"title": "Any"}, {"type": "object", "example": {}, "_format": "x", "decription": ""}],
)
def test_other_unknown_keywords_are_annotations(schema: Any) -> None:
    assert generated_constraint(schema).schema == schema


def test_declared_objects_are_closed_and_in_one_line() -> None:
    """A constraint that somebody made is as it was made."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    cases = [(generated_constraint(schema), False), (generated_constraint(schema, closed=False), True)]
    for constraint, others in [*cases, (generated_constraint(constrained.json_schema(schema)), True)]:
        automaton = constrained.compile(constraint, byte_vocabulary())
        assert accepts_text(automaton, '{"b": 1}') == others
        assert accepts_text(automaton, '{"a": 1}')
