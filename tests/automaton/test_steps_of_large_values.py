"""Steps of masks where a constraint lists many values, or asks for many different ones: none is counted for each value again."""

from __future__ import annotations

from typing import Any

import pytest

from constrained.automaton import TokenAutomaton, UniqueAutomaton, compile
from constrained.automaton.protocol import Automaton
from constrained.bench.hostile.case import words
from constrained.constraint import json_schema


def steps(schema: Any, text: str) -> tuple[int, int]:
    """Those behind a text: of its shortest completion, and of the mask when just that may still follow."""
    vocabulary = words()
    numbers = {token: number for number, token in enumerate(vocabulary.tokens)}
    automaton: Automaton = compile(schema, vocabulary)
    assert isinstance(automaton, TokenAutomaton | UniqueAutomaton)
    state = automaton.start
    for byte in text.encode():
        state = automaton.next(state, numbers[bytes((byte,))])
    mask = automaton.new_mask()
    automaton.fill_mask(state, mask)
    shortest = automaton.shortest_completion(state)
    counting = automaton.last_work
    automaton.fill_mask_within(state, mask, shortest)
    assert mask.any()
    return counting, automaton.last_work


@pytest.mark.ci
def test_counting_exactly_ends_early_where_a_list_is_long() -> None:
    values = [{"a": i, "b": [i]} for i in range(20_000)]
    shortest, within = steps({"enum": values}, '{"a":')
    assert shortest + within < 10 * len(values)


def test_each_further_different_string_reads_the_earlier_ones_by_their_first_characters() -> None:
    shortest, within = steps(
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 200}, '["$'
    )
    assert shortest + within < 600_000


def test_names_that_no_shortest_completion_has_are_not_told_apart() -> None:
    conditions = [
        {"not": {"additionalProperties": {"type": "string"}}},
        {"not": {"patternProperties": {"b": {"type": "string", "format": "date"}}}},
    ]
    shortest, within = steps({"type": "object", "allOf": conditions}, '{"a":1,"')
    assert shortest + within < 100_000


INSIDE = {"type": "object", "properties": {"c": {"type": "string", "pattern": "77"}}}
PATTERNS = ("a", "b", "c", "^x", "y$")


@pytest.mark.parametrize(
    ("schema", "text", "most"),
    [
        (
            {
                "type": "object",
                "oneOf": [
                    {
                        "patternProperties": {name: {"type": "object"}},
                        "not": {"patternProperties": {name: {"not": INSIDE}}},
                    }
                    for name in "ab"
                ],
            },
            '{"',
            60_000,
        ),
        (
            {
                "type": "object",
                "patternProperties": {pattern: {"minimum": i} for i, pattern in enumerate(PATTERNS[:4])},
                "minProperties": 8,
            },
            '{ "',
            340_000,
        ),
        (
            {
                "type": "object",
                "patternProperties": {pattern: {"minimum": i} for i, pattern in enumerate(PATTERNS)},
                "allOf": [{"not": {"patternProperties": {name: {"type": "string"}}}} for name in "ab"],
                "minProperties": 3,
            },
            '{ "',
            600_000,
        ),
    ],
    ids=["one of two conditions", "patterns that overlap", "conditions on them"],
)
def test_names_are_told_apart_only_where_a_shortest_completion_has_them(
    schema: Any, text: str, most: int
) -> None:
    shortest, within = steps(schema, text)
    assert shortest + within < most


def after_text_of_cases(count: int, text: bytes) -> tuple[TokenAutomaton, int]:
    """The automaton of an object of 2^count cases, and its state after a text."""
    cases = {f"p{i}": {"required": [f"q{i}"]} for i in range(count)}
    known = {name: {"type": "null"} for name in cases}
    schema = {"type": "object", "dependentSchemas": cases, "properties": known}
    automaton = compile(json_schema(schema, property_order="any"), words())
    assert isinstance(automaton, TokenAutomaton)
    state = automaton.start
    for byte in text:
        state = automaton.next(state, automaton.vocabulary.tokens.index(bytes((byte,))))
    return automaton, state


def test_a_name_in_many_cases_is_counted_in_each() -> None:
    automaton, _ = after_text_of_cases(8, b'{"xy')
    assert automaton.last_work > 2**8


@pytest.mark.ci
def test_few_tokens_that_begin_a_name_are_not_read_in_each_of_many_cases() -> None:
    automaton, state = after_text_of_cases(10, b"{")
    mask = automaton.new_mask()
    shortest = automaton.shortest_completion(state)
    for budget, most in ((shortest, 1_600_000), (shortest + 1, 600_000)):
        automaton.fill_mask_within(state, mask, budget)
        assert automaton.last_work < most


def test_different_multiples_with_many_remainders_need_no_search() -> None:
    number = {"type": "number", "multipleOf": 4093}
    shortest, within = steps({"type": "array", "items": number, "uniqueItems": True, "minItems": 2}, "[425")
    assert shortest + within < 30_000
