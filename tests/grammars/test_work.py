"""Reading a constraint is counted in steps, and a constraint of too many is refused at its place."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from constrained.automaton import compile_grammar
from constrained.grammars import work
from constrained.grammars.errors import ConstraintTooLarge
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from constrained.grammars.json_schema.resolve import validate
from constrained.grammars.json_schema.source import constraints
from constrained.grammars.json_schema.text.literals import equality_key
from constrained.grammars.json_schema.text.patterns import ecma_pattern
from constrained.grammars.regex import languages, parse
from constrained.grammars.work import counted_work, spend
from tests.grammars.json_schema.official_suite import VOCABULARY
from tests.support.reading import accepts


def test_steps_are_counted_where_a_constraint_is_read() -> None:
    spend(2 * work.MAX_STEPS)  # of a rule that is made in the middle of a text
    with counted_work("#"):
        spend(work.MAX_STEPS)
        with pytest.raises(ConstraintTooLarge, match="#/a") as refused:
            spend(1, "#/a")
    assert f"{work.MAX_STEPS:,} steps" in str(refused.value)
    with counted_work("#"):
        spend(work.MAX_STEPS)


def test_a_constraint_inside_of_another_one_is_part_of_it() -> None:
    with counted_work("#"):
        with counted_work("#/inside"):
            spend(work.MAX_STEPS)
        with pytest.raises(ConstraintTooLarge, match="#"):
            spend(1)


def test_who_goes_on_after_a_refusal_is_refused_again_with_the_same_error() -> None:
    with counted_work("#"):
        refusals = []
        for place in ("#/a", "#/b"):
            with pytest.raises(ConstraintTooLarge) as refused:
                spend(work.MAX_STEPS + 1, place)
            refusals.append(refused.value)
    assert refusals[0] is refusals[1]
    assert refusals[0].problems[0].place == "#/a"


def _overlapping(branches: int, parts: int) -> dict[str, Any]:
    """Alternatives of alternatives: whether two have a value in common is a question for each pair of their parts."""
    return {
        "oneOf": [
            {
                "anyOf": [
                    {"properties": {f"p{i}": {"minimum": j}}, "required": [f"p{i}"]} for j in range(parts)
                ]
            }
            for i in range(branches)
        ]
    }


def _patterns(count: int) -> dict[str, Any]:
    """Names that may match any of the patterns: whether one can match some and not others is a proof for each set."""
    return {"patternProperties": {f"^.*{'xyz'[i % 3]}.{{{i + 5}}}.*$": {"minimum": i} for i in range(count)}}


@pytest.mark.ci
@pytest.mark.parametrize("schema", [_overlapping(40, 40), _patterns(40)], ids=["oneOf", "patternProperties"])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_conditions_of_too_much_work_are_refused_at_their_place(
    monkeypatch: pytest.MonkeyPatch, schema: Any, order: Any
) -> None:
    monkeypatch.setattr(work, "MAX_STEPS", 100_000)
    with pytest.raises(ConstraintTooLarge, match="too much work to read") as refused:
        lower_schema(schema, SchemaOptions(property_order=order))
    assert refused.value.problems[0].place.startswith("#")


@pytest.mark.parametrize(
    ("values", "other"),
    [
        ([f"v{i}" for i in range(300)], {"type": "string", "pattern": "^x"}),
        ([{"kind": "first", "number": i} for i in range(300)], {"type": "object", "required": ["name"]}),
    ],
    ids=["strings", "objects"],
)
def test_values_are_looked_up_among_those_that_are_enumerated(
    monkeypatch: pytest.MonkeyPatch, values: list[Any], other: Any
) -> None:
    """Whether a list shares a value with another schema takes a few looks at each value, and not one at each pair of values."""
    looks = 0

    def counted(value: Any) -> Hashable:
        nonlocal looks
        looks += 1
        return equality_key(value)

    for module in (constraints, validate):
        monkeypatch.setattr(module, "equality_key", counted)
    lower_schema({"oneOf": [{"enum": values}, other]})
    assert looks <= 20 * len(values)


def test_enumerated_values_are_told_apart_as_json_has_them() -> None:
    schema = {"oneOf": [{"enum": [1, [True], {"a": 1, "b": 2}]}, {"enum": [True, [1], {"b": 2.0, "a": 1}]}]}
    automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    for text in ("1", "true", "[true]", "[1]"):
        assert accepts(automaton, text)
    assert not accepts(automaton, '{"a": 1, "b": 2}')  # one value: both have it


def test_a_proof_about_patterns_gives_up_after_so_many_steps() -> None:
    prover = languages.RegularLanguages()
    hard = parse("(aa|aaa){300}", dialect="ecma")
    assert not prover.provably_disjoint(
        [hard, parse("[a-z]+", dialect="ecma")], [parse("a{899}", dialect="ecma")]
    )
    assert prover.steps < 2 * languages.MAX_STEPS


def test_a_pattern_remembers_short_texts_only() -> None:
    pattern = ecma_pattern("^a*$")
    for text in ("a" * 10, "a" * 10_000):
        assert pattern.matches(text)
    assert "a" * 10 in pattern._known
    assert "a" * 10_000 not in pattern._known
