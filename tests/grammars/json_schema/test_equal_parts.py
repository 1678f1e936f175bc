"""Schemas with the same text in several places are lowered once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained.automaton import compile_grammar
from constrained.grammars.errors import UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars.json_schema import SchemaOptions, lower, lower_schema
from tests.grammars.json_schema.test_random_schemas import JUDGES, judge_all
from tests.support.examples import examples
from tests.support.finite import byte_vocabulary
from tests.support.reading import accepts


@pytest.fixture(autouse=True)
def even_in_small_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower, "_SHARED_FROM", 1)


def test_each_text_is_lowered_once() -> None:
    """Where titles make the texts differ, every place has rules of its own."""

    def rules(titled: bool) -> int:
        def part(i: int) -> dict[str, Any]:
            title = {"title": str(i)} if titled else {}
            branches = [{"type": "array", **title}, {"minItems": 3, **title}]
            return {"type": "object", "properties": {"x": {"oneOf": branches}}, "required": ["x"]}

        schema = {"type": "array", "prefixItems": [part(i) for i in range(6)], "minItems": 6}
        return len(lower_schema(schema).grammar.rules)

    assert rules(titled=False) < rules(titled=True) / 3


def test_a_branch_that_stands_twice_in_one_of_is_none() -> None:
    schema = {
        "oneOf": [{"type": "integer"}, {"type": "integer"}, {"type": ["integer", "null"]}, {"type": "string"}]
    }
    automaton = compile_grammar(lower_schema(schema).grammar, byte_vocabulary())
    assert [accepts(automaton, text) for text in ["1", "null", '"a"', "true"]] == [False, True, True, False]
    with pytest.raises(UnsatisfiableConstraint):
        lower_schema({"oneOf": [{"type": "null"}, {"type": "null"}]})


@pytest.mark.parametrize("negated", [False, True])
def test_equal_branches_beside_different_ones(negated: bool) -> None:
    """What a branch of ``oneOf`` excludes depends on the branches beside it."""

    def either(name: str) -> Any:
        branch = {"type": "object", "properties": {"x": {"type": "string"}}}
        one = {"oneOf": [branch, {"type": "object", "required": [name]}]}
        return {"type": "object", "not": one} if negated else one

    schema = {"type": "object", "properties": {"p": either("b"), "q": either("c")}}
    automaton = compile_grammar(
        lower_schema(schema, SchemaOptions(property_order="any")).grammar, byte_vocabulary()
    )
    for member, name in (("p", "b"), ("q", "c")):
        for inner in ({}, {"b": 1}, {"c": 1}, {"b": 1, "c": 1}, {"x": 1}, {"x": 1, "b": 1}, {"x": 1, "c": 1}):
            exactly_one = ("x" not in inner) != (name in inner)
            assert accepts(automaton, json.dumps({member: inner})) == (exactly_one != negated), inner


def test_errors_and_reports_name_every_place() -> None:
    part = {"pattern": "(a)\\1"}
    with pytest.raises(UnsupportedConstraint) as caught:
        lower_schema({"properties": {"a": dict(part), "b": dict(part)}})
    assert [problem.place for problem in caught.value.problems] == [
        "#/properties/a/pattern",
        "#/properties/b/pattern",
    ]
    report = lower_schema({"properties": {"a": {"minimum": 1}, "b": {"minimum": 1}}}).report
    assert [entry.pointer for entry in report.entries if entry.keyword == "minimum"] == [
        "#/properties/a/minimum",
        "#/properties/b/minimum",
    ]


@pytest.mark.ci
@pytest.mark.parametrize("draft", JUDGES)
def test_random_schemas_admit_what_two_validators_admit(draft: str) -> None:
    assert judge_all(draft, range(500, 500 + examples(240)))["compiled"] > 15
