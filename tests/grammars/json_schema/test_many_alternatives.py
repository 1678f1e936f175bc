"""Many alternatives of strings, or of numbers, at one place: one language, and what `jsonschema` calls valid."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from constrained.automaton import compile_grammar
from constrained.grammars.errors import UnsatisfiableConstraint, UnsupportedConstraint
from constrained.grammars.json_schema import lower_schema
from constrained.grammars.json_schema.emit import scalars
from tests.grammars.json_schema.official_suite import VOCABULARY, accepts
from tests.support.examples import examples
from tests.support.json_walks import walk

STRINGS = ["".join(letters) for size in range(4) for letters in product("ab1", repeat=size)]
NUMBERS = [*range(-3, 31), 0.5, 1.5, -2.5, 7.25]
strings = st.sampled_from(
    [
        {"pattern": "^a"},
        {"pattern": "b.*1"},
        {"pattern": "[ab]$"},
        {"minLength": 2},
        {"maxLength": 1},
        {"enum": ["", "a", "ab1", 5]},
        {"const": "b"},
        {"type": "string"},
        {"type": "integer"},
        {"minimum": 3},
        {"pattern": "1", "maxLength": 2},
    ]
)
numbers = st.sampled_from(
    [
        {"multipleOf": 2},
        {"multipleOf": 2.5},
        {"minimum": 3},
        {"exclusiveMaximum": 20},
        {"maximum": 7.25},
        {"enum": [0.5, 1, 12, "a", None]},
        {"const": 6},
        {"type": "integer"},
        {"type": ["number", "string"]},
        {"pattern": "a"},
    ]
)


def combined(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Alternatives of alternatives."""

    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        some = st.lists(inner, min_size=2, max_size=3)
        return st.one_of(
            st.builds(lambda word, parts: {word: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), some),
            st.builds(lambda part: {"not": part}, inner),
            st.builds(lambda a, b, c: {"if": a, "then": b, "else": c}, inner, inner, inner),
        )

    return st.recursive(leaves, wider, max_leaves=8)


def agree(schema: Any, values: list[Any]) -> None:
    """The automaton takes those of some values that are valid; and what it writes is valid."""
    judge = Draft202012Validator(schema)
    try:
        automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    except UnsatisfiableConstraint:
        assert not any(map(judge.is_valid, values)), schema
        return
    for value in values:
        assert accepts(automaton, value, True) == judge.is_valid(value), (schema, value)
    value = json.loads(walk(automaton, random.Random(len(json.dumps(schema))), free=150))
    assert not isinstance(value, str) or judge.is_valid(value), (schema, value)


@given(st.lists(combined(strings), min_size=3, max_size=4))
@settings(max_examples=examples(40))
def test_strings(parts: list[Any]) -> None:
    some = [{"anyOf": [part, {"const": "aa"}]} for part in parts]
    agree({"type": "string", "allOf": some}, STRINGS)


@given(st.lists(combined(numbers), min_size=3, max_size=4))
@settings(max_examples=examples(40))
def test_numbers(parts: list[Any]) -> None:
    some = [{"oneOf": [part, {"const": 9}]} for part in parts]
    agree({"type": ["number", "null", "boolean"], "allOf": some}, [*NUMBERS, None, True, False])


def test_combinations_are_not_multiplied() -> None:
    letters = [{"anyOf": [{"pattern": f"{a}{b}"} for a in "abcd"]} for b in "efghijkl"]  # 4 ** 8 ways
    schema = {"type": "string", "allOf": letters, "maxLength": 20}
    automaton = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    assert accepts(automaton, "".join(f"a{b}" for b in "efghijkl"), True)
    assert not accepts(automaton, "".join(f"a{b}" for b in "efghijk"), True)


def test_both_readings_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {
        "type": "string",
        "allOf": [{"anyOf": [{"pattern": c}, {"minLength": 2}, {"const": "a"}]} for c in "ab1"],
    }
    one = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    monkeypatch.setattr(scalars, "SCALAR_TERM_THRESHOLD", 10**9)
    other = compile_grammar(lower_schema(schema).grammar, VOCABULARY)
    for text in STRINGS:
        assert accepts(one, text, True) == accepts(other, text, True)


def test_keywords_that_cannot_be_enforced_are_named_all_the_same() -> None:
    some = [{"anyOf": [{"pattern": f"{c}"}, {"maxLength": 3}, {"pattern": r"(a)\1"}]} for c in "abc"]
    with pytest.raises(UnsupportedConstraint, match="anyOf/2/pattern"):
        lower_schema({"type": "string", "allOf": some})
